// Decisions that may not be saved yet. They stay in the browser's storage until the server responds
// that they are on disk. Each decision has a unique name, so it counts once even if it is sent
// twice, for example from two tabs.

const RETRY_MILLISECONDS = 2000;
const token = document.querySelector("meta[name=review-token]").content;

export class RequestFailed extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status; // 0: no response
  }
  // Whether the same request may succeed later.
  get isPassing() { return this.status === 0 || this.status === 403 || this.status >= 500; }
}

export async function ask(path, body) {
  const options = {headers: {"X-Review-Token": token}, cache: "no-store"};
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let response, answer;
  try {
    response = await fetch(path, options);
    answer = await response.json();
  } catch {
    throw new RequestFailed(response?.ok === false ? response.status : 0, "The server does not answer.");
  }
  if (!response.ok) throw new RequestFailed(response.status, answer.error);
  return answer;
}

export class Outbox {
  // onSaved(request, answer), onRefused(request, error), onTrouble(error or null, number waiting)
  constructor(audit, {onSaved, onRefused, onTrouble}) {
    this.prefix = `discrimloss-review:${audit}:`;
    Object.assign(this, {onSaved, onRefused, onTrouble});
    this.waiting = this.#stored();
    this.counter = 0;
    this.sending = null; // the promise of the loop that sends, while it runs
    if (this.waiting.length) this.#send();
  }

  get size() { return this.waiting.length; }

  // Resolves when all decisions are saved, or when the server fails.
  settled() { return this.sending ?? Promise.resolve(); }

  put(request) {
    const place = `${String(Date.now()).padStart(15, "0")}-${String(this.counter++).padStart(6, "0")}`;
    const entry = {key: `${this.prefix}${place}-${request.event}`, request};
    try { localStorage.setItem(entry.key, JSON.stringify(request)); } catch { /* full: memory has it */ }
    this.waiting.push(entry);
    this.#send();
  }

  #stored() {
    const entries = [];
    try {
      for (const key of Object.keys(localStorage).filter(key => key.startsWith(this.prefix)).sort())
        entries.push({key, request: JSON.parse(localStorage.getItem(key))});
    } catch { /* no storage here: nothing was kept */ }
    return entries;
  }

  #send() {
    this.sending ??= this.#sendAll().finally(() => { this.sending = null; });
  }

  async #sendAll() {
    while (this.waiting.length) {
      const {key, request} = this.waiting[0];
      let answer;
      try {
        answer = await ask("/api/decisions", request);
      } catch (error) {
        if (error.isPassing) {
          this.onTrouble(error, this.waiting.length);
          setTimeout(() => this.#send(), RETRY_MILLISECONDS);
          return;
        }
        this.#forget(key);
        this.onRefused(request, error);
        continue;
      }
      this.#forget(key);
      this.onSaved(request, answer);
    }
    this.onTrouble(null, 0);
  }

  #forget(key) {
    this.waiting.shift();
    try { localStorage.removeItem(key); } catch { /* it was never there */ }
  }
}
