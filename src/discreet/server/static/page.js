// Script of the pages, which work without it: links and forms change the page in place, arrow keys move in the network,
// variables are found by name, and the picture can be zoomed and saved. If the server does not answer, the page stays;
// if a release was replaced between two answers, the page says so.
"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  let wanted = null;
  let zoom = 1;

  // ---------------------------------------------------------------------------------------- the page in place
  async function show(address, push, focus) {
    wanted?.abort();
    wanted = new AbortController();
    const main = find("main");
    main.setAttribute("aria-busy", "true");
    address = address.replace(/\?$/, "");
    try {
      const got = await fetch(address, { headers: { accept: "text/html" }, signal: wanted.signal });
      const text = await got.text();
      const page = new DOMParser().parseFromString(text, "text/html");
      const fresh = page.querySelector("main#main");
      if (!fresh) throw new Error(sentence(text));
      if (!got.ok || new URL(got.url).pathname !== location.pathname) return location.assign(address);
      find("notice").hidden = true;
      const { version, number } = main.dataset;
      const place = document.querySelector(".network");
      const left = place?.scrollLeft, top = place?.scrollTop, sought = find("find")?.value;
      if (push) history.pushState(null, "", address);
      main.replaceWith(fresh);
      document.title = page.title;
      prepare();
      const now = document.querySelector(".network");
      if (now && place) now.scrollTo(left, top);
      if (find("find") && sought) { find("find").value = sought; filter(); }
      (find(focus) ?? find("main")).focus({ preventScroll: true });
      const alert = document.querySelector("main [role=alert]");
      find("said").textContent = alert ? alert.textContent : find("main").dataset.said ?? "";
      if (version && fresh.dataset.version !== version) {
        const link = document.createElement("a");
        link.href = new URL(version + location.search, location.href).href;
        link.textContent = `version ${number}`;
        tell(`This release was replaced: the page now shows version ${fresh.dataset.number}, before it showed `, link);
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      main.removeAttribute("aria-busy");
      const again = document.createElement("button");
      again.textContent = "Try again";
      again.addEventListener("click", () => show(address, push, focus));
      const why = error.name === "Error" ? error.message : "";
      tell(`The server did not answer${why ? `: ${why}.` : "."} The page shows its previous answer. `, again);
    }
  }

  // The detail of a problem document, which a busy server sends; "" for pages of a proxy.
  function sentence(text) {
    try {
      return JSON.parse(text).detail ?? "";
    } catch {
      return "";
    }
  }

  function tell(text, more) {
    const notice = find("notice");
    notice.setAttribute("role", "alert");
    notice.replaceChildren(text, more);
    notice.hidden = false;
  }

  function focused() {
    return document.activeElement?.id || "main";
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("main a");
    const to = link?.getAttribute("href");
    const plain = !(event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (!to?.startsWith("?") || to.includes("#") || !plain) return;
    event.preventDefault();
    show(new URL(to, location.href).href, true, link.id || focused());
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "get" || form.getAttribute("action")) return;
    event.preventDefault();
    const said = new URLSearchParams(new FormData(form));
    if (said.get("q") === "") said.delete("q");
    show(`${location.pathname}?${said}`, true, focused());
  });

  window.addEventListener("popstate", () => show(location.href, false, focused()));

  // ------------------------------------------------------------------------------------------ arrow keys
  document.addEventListener("keydown", (event) => {
    const here = event.target.closest?.(".network a");
    const step = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!here || !step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const own = [...here.parentNode.querySelectorAll("a")];
    let next = own[own.indexOf(here) + step];
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const boxes = [...document.querySelectorAll(".network .node")];
      next = boxes[boxes.indexOf(here.parentNode) + step]?.querySelector("a");
    }
    next?.focus();
  });

  // ----------------------------------------------------------------------------------------------- finding, zooming
  // Filter boxes and rows of the table; return the first visible match.
  function filter() {
    const text = find("find").value.trim().toLowerCase();
    const has = (name) => name.toLowerCase().includes(text);
    const boxes = [...document.querySelectorAll(".network .node")];
    for (const box of boxes) box.classList.toggle("dim", !has(box.dataset.name));
    const groups = [...document.querySelectorAll(".states tbody")];
    for (const group of groups) group.hidden = !has(group.querySelector("th").textContent);
    const found = groups.filter((group) => !group.hidden);
    find("found").textContent = text ? `${found.length} of ${groups.length} variables` : "";
    if (text) find("said").textContent = find("found").textContent;
    const box = boxes.find((one) => !one.classList.contains("dim") && one.getClientRects().length);
    if (box && text) {
      if (zoom < 1) resize(1);
      box.scrollIntoView({ block: "center", inline: "center" });
    }
    return box ?? found[0];
  }

  function resize(factor) {
    const picture = find("picture");
    const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
    zoom = Math.min(3, Math.max(0.1, factor));
    picture.setAttribute("width", width * zoom);
    picture.setAttribute("height", height * zoom);
  }

  // ------------------------------------------------------------------------------------------------- picture as a file
  async function save(button) {
    const image = new Image();
    image.src = button.dataset.picture;
    await image.decode();
    const scale = image.width * image.height > 4e6 ? 1 : 2;
    const canvas = document.createElement("canvas");
    canvas.width = image.width * scale;
    canvas.height = image.height * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = button.dataset.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // -------------------------------------------------------------------------- setup of a page
  function prepare() {
    const tools = document.querySelector(".tools");
    if (tools) {
      tools.hidden = false;
      find("find").addEventListener("input", filter);
      find("find").addEventListener("keydown", (event) => {
        if (event.key === "Enter") filter()?.querySelector("a")?.focus();
      });
    }
    if (find("fit")) {
      find("smaller").addEventListener("click", () => resize(zoom / 1.25));
      find("larger").addEventListener("click", () => resize(zoom * 1.25));
      find("fit").addEventListener("click", () => {
        const width = Number(find("picture").getAttribute("viewBox").split(" ")[2]);
        resize(Math.min(1, (document.querySelector(".network").clientWidth - 4) / width));
      });
      if (zoom !== 1) resize(zoom);
    }
    const where = document.querySelector(".where");
    if (where) where.textContent = find("permanent").href;
    const png = find("png");
    if (png) {
      png.parentNode.hidden = false;
      png.addEventListener("click", () => save(png));
    }
  }

  prepare();
})();
