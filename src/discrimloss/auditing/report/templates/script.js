(function () {
  "use strict";
  var figures = JSON.parse(document.getElementById("figures").textContent);
  var root = document.documentElement;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var canHover = window.matchMedia("(hover: hover)").matches;
  var config = { displayModeBar: false, responsive: true, scrollZoom: false };

  function colour(name) { return window.getComputedStyle(root).getPropertyValue(name).trim(); }

  function themed(wanted) {
    var ink = colour("--ink"), grid = colour("--grid"), quiet = colour("--quiet");
    var layout = JSON.parse(JSON.stringify(wanted));
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { color: ink, size: 12, family: window.getComputedStyle(document.body).fontFamily };
    layout.margin = { l: 48, r: 10, t: 10, b: 42 };
    layout.height = layout.height || 330;
    layout.legend = { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } };
    layout.hoverlabel = { bgcolor: colour("--card"), bordercolor: quiet, font: { color: ink } };
    // A finger that moves over a chart scrolls the page.
    layout.dragmode = canHover ? "zoom" : false;
    ["xaxis", "yaxis"].forEach(function (name) {
      var axis = layout[name];
      axis.gridcolor = grid; axis.zerolinecolor = grid; axis.linecolor = grid;
      axis.tickfont = { color: quiet }; axis.automargin = true;
      axis.title.font = { color: quiet, size: 12 }; axis.title.standoff = 8;
      axis.fixedrange = !canHover;
    });
    return layout;
  }

  function Chart(element) {
    this.plot = element.querySelector(".plot");
    this.slider = element.querySelector("input");
    this.output = element.querySelector("output");
    this.buttons = Array.from(element.querySelectorAll(".views button"));
    this.views = figures[element.dataset.figure];
    this.chosen = 0;
    this.drawn = false;
    var chart = this;
    this.buttons.forEach(function (button, number) {
      button.addEventListener("click", function () { chart.choose(number); });
    });
    if (this.slider) this.slider.addEventListener("input", function () { chart.move(); });
  }
  Chart.prototype.draw = function () {
    if (this.plot.closest("details:not([open])")) return; // drawn when it is opened
    var view = this.views[this.chosen];
    this.drawn = true;
    var ink = colour("--ink");
    view.data.forEach(function (trace) {
      if (trace.type === "heatmap") trace.textfont = { color: ink }; // its own choice sees no page
    });
    window.Plotly.react(this.plot, view.data, themed(view.layout), config);
    this.move();
  };
  Chart.prototype.choose = function (number) {
    this.chosen = number;
    this.buttons.forEach(function (button, other) {
      button.setAttribute("aria-pressed", String(other === number));
    });
    this.draw();
  };
  Chart.prototype.move = function () {
    if (!this.slider) return;
    var step = this.views[this.chosen].steps[Number(this.slider.value)];
    this.output.textContent = step.label;
    this.slider.setAttribute("aria-valuetext", step.label);
    window.Plotly.restyle(this.plot, step.update);
  };

  var charts = Array.from(document.querySelectorAll("[data-figure]"), function (element) {
    return new Chart(element);
  });
  function paint() { charts.forEach(function (chart) { chart.draw(); }); }
  document.querySelectorAll("details").forEach(function (details) {
    details.addEventListener("toggle", function () {
      charts.forEach(function (chart) { if (!chart.drawn) chart.draw(); });
    });
  });
  dark.addEventListener("change", paint);
  var resized;
  window.addEventListener("resize", function () { // legends make room for themselves when drawn
    window.clearTimeout(resized);
    resized = window.setTimeout(paint, 200);
  });
  window.addEventListener("beforeprint", function () { root.classList.add("printing"); paint(); });
  window.addEventListener("afterprint", function () { root.classList.remove("printing"); paint(); });
  paint();
})();
