/* Search runs in a worker, and browsers start none from a file: there an invisible frame does its work. */
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.title = "search";
    document.body.appendChild(frame);
    const inside = (this.inside = frame.contentWindow);
    window.addEventListener("message", (event) => {
      if (event.source !== inside) return;
      this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      if (this.onmessage) this.onmessage(event);
    });
    inside.document.open();
    inside.document.write(
      `<!doctype html><html lang="en"><title>search</title><body><script>
        postMessage = (data) => parent.dispatchEvent(new MessageEvent("message", { data, source: window }));
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((resolve, reject) => {
          const script = document.createElement("script");
          script.src = url;
          script.onload = resolve;
          script.onerror = reject;
          document.body.appendChild(script);
        })), Promise.resolve());
      <\/script><script src="${url}"><\/script></body></html>`
    );
    inside.document.close();
    this.ready = new Promise((resolve) => (inside.onload = resolve));
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }
  terminate() {}
}
if (location.protocol === "file:") window.Worker = FrameWorker;
