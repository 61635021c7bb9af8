const figures = JSON.parse(document.getElementById("figures").textContent);
const root = document.documentElement;
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function colour(name) { return window.getComputedStyle(root).getPropertyValue(name).trim(); }

// Colours of the page, and as many columns of the legend as fit.
function style(width, longest) {
  const ink = colour("--ink"), quiet = colour("--quiet"), grid = colour("--grid");
  const axis = {
    gridColor: grid, domainColor: grid, tickColor: grid, labelColor: quiet, titleColor: quiet,
    titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 12, labelLimit: Math.min(160, width / 3),
  };
  return {
    background: "transparent",
    font: window.getComputedStyle(document.body).fontFamily,
    axis: axis,
    axisQuantitative: { tickCount: 6 },
    legend: {
      orient: "top", offset: 8, labelColor: ink, labelFontSize: 12, labelLimit: width - 60, symbolStrokeWidth: 2,
      columns: Math.max(1, Math.floor((width - 50) / (36 + 6.3 * longest))),
    },
    view: { stroke: null },
    text: { color: ink },
  };
}

class Chart {
  constructor(element) {
    this.plot = element.querySelector(".plot");
    this.slider = element.querySelector("input");
    this.output = element.querySelector("output");
    this.buttons = Array.from(element.querySelectorAll(".views button"));
    this.views = figures[element.dataset.figure];
    this.chosen = 0;
    this.drawn = null;
    this.buttons.forEach((button, number) => {
      button.addEventListener("click", () => this.choose(number));
    });
    if (this.slider) this.slider.addEventListener("input", () => this.move());
  }

  async draw() {
    if (this.plot.closest("details:not([open])")) return; // drawn when it is opened
    const view = this.views[this.chosen];
    const width = this.plot.clientWidth;
    const options = {
      mode: "vega-lite", renderer: "svg", actions: false, tooltip: { theme: dark.matches ? "dark" : "light" },
      ast: true, // expressions are interpreted, not compiled: the page forbids eval
      config: style(width, view.spec.usermeta.longest),
    };
    const before = this.drawn;
    this.drawn = window.vegaEmbed(this.plot, view.spec, options);
    if (before) before.then((old) => old.finalize());
    await this.drawn;
    this.move();
  }

  choose(number) {
    this.chosen = number;
    this.buttons.forEach((button, other) => {
      button.setAttribute("aria-pressed", String(other === number));
    });
    this.draw();
  }

  async move() {
    if (!this.slider) return;
    const position = Number(this.slider.value);
    const label = this.views[this.chosen].positions[position];
    this.output.textContent = label;
    this.slider.setAttribute("aria-valuetext", label);
    const { view } = await this.drawn;
    view.signal("position", position).runAsync();
  }
}

const charts = Array.from(document.querySelectorAll("[data-figure]"), (element) => new Chart(element));
function paint() { charts.forEach((chart) => chart.draw()); }
document.querySelectorAll("details").forEach((details) => {
  details.addEventListener("toggle", () => charts.forEach((chart) => { if (!chart.drawn) chart.draw(); }));
});
dark.addEventListener("change", paint);
let resized, width = window.innerWidth;
window.addEventListener("resize", () => { // a legend needs another number of columns
  if (window.innerWidth === width) return; // a phone hides its address bar while scrolling
  width = window.innerWidth;
  window.clearTimeout(resized);
  resized = window.setTimeout(paint, 200);
});
window.addEventListener("beforeprint", () => { root.classList.add("printing"); paint(); });
window.addEventListener("afterprint", () => { root.classList.remove("printing"); paint(); });
paint();
