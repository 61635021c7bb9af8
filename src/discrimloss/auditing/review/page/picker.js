// The dialog to choose any label: the user types to find a class, or types a number.

import {byId, element, labelText} from "./drawing.js";

const MOST_SHOWN = 200;
const dialog = byId("picker"), input = byId("picker-input"), list = byId("picker-list");
const message = byId("picker-message");

// `onChoose` gets the label. A name that occurs in no class must be submitted twice: the first time, a
// message says that the class is new.
export class Picker {
  constructor(about, onChoose) {
    this.classNames = about.class_names;
    this.isRegression = about.is_regression;
    this.onChoose = onChoose;
    list.hidden = this.isRegression;
    input.inputMode = this.isRegression ? "decimal" : "text";
    input.addEventListener("input", () => this.#find());
    input.addEventListener("keydown", event => this.#move(event));
    byId("picker-form").addEventListener("submit", event => { event.preventDefault(); this.#submit(); });
    byId("picker-cancel").addEventListener("click", () => dialog.close());
  }

  open(row) {
    byId("picker-title").textContent = this.isRegression
      ? `The right number (given ${labelText(row.given)}, predicted ${labelText(row.suggested)})`
      : "The right label";
    input.value = "";
    this.#find();
    dialog.showModal();
    input.focus();
  }

  #find() {
    this.confirmed = null;
    message.textContent = "";
    if (this.isRegression) return;
    const typed = input.value.trim().toLowerCase();
    const begins = [], holds = [];
    for (const name of this.classNames) {
      const place = name.toLowerCase().indexOf(typed);
      if (place === 0) begins.push(name);
      else if (place > 0) holds.push(name);
    }
    this.found = [...begins, ...holds];
    const exact = this.found.findIndex(name => name.toLowerCase() === typed);
    if (exact > 0) this.found.unshift(...this.found.splice(exact, 1));
    this.selected = 0;
    this.shown = this.found.slice(0, MOST_SHOWN).map(name => ({name, text: name}));
    if (typed && this.found.length && exact < 0) {  // part of other names, but may be a new class
      const name = input.value.trim();
      this.shown.push({name, text: `New class “${name}”`});
    }
    list.replaceChildren(...this.shown.map(({name, text}, place) => {
      const item = element("li", {id: `picker-${place}`, textContent: text});
      item.setAttribute("role", "option");
      item.addEventListener("click", () => this.#choose(name));
      return item;
    }));
    if (this.found.length > MOST_SHOWN)
      message.textContent = `${this.found.length} classes: type to find one.`;
    if (!this.found.length) message.textContent = "There is no such class: Enter makes a new one.";
    this.#mark();
  }

  #mark() {
    [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === this.selected)));
    const item = list.children[this.selected];
    if (item) item.scrollIntoView({block: "nearest"});
    input.setAttribute("aria-activedescendant", item ? item.id : "");
  }

  #move(event) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!step || this.isRegression || !list.children.length) return;
    event.preventDefault();
    this.selected = (this.selected + step + list.children.length) % list.children.length;
    this.#mark();
  }

  #submit() {
    const typed = input.value.trim();
    if (this.isRegression) {
      const number = Number(typed.replace(",", "."));
      if (typed === "" || !Number.isFinite(number)) {
        message.textContent = "Type a number, such as 12.5.";
        return;
      }
      this.#choose(number);
    } else if (this.found.length) {
      this.#choose(this.shown[this.selected].name);
    } else if (typed && this.confirmed === typed) {
      this.#choose(typed);
    } else if (typed) {
      this.confirmed = typed;
      message.textContent = `“${typed}” is a new class. Press Enter again to make it.`;
    }
  }

  #choose(label) {
    if (!this.isRegression && !this.classNames.includes(label)) this.classNames.push(label);
    dialog.close();
    this.onChoose(label);
  }
}
