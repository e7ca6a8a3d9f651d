// Parts of a page that keep themselves up to date (hx-trigger="every …"): at a pace that a page left open for
// a day can keep, and without disturbing who reads.
//
// A poll is a request of htmx that no event triggered. Each passes the gate below: not while the page is
// hidden, not while the one before is under way, later and later after errors, and no more than once a minute
// once nobody has touched the page for a while. A poll says which version is there already (ETag); an answer
// 304 leaves everything as it is.
(function () {
  "use strict";

  var LONGEST_WAIT = 5 * 60 * 1000;
  var UNATTENDED_AFTER = 30 * 60 * 1000;
  var UNATTENDED_PACE = 60 * 1000;

  // Element → what is known of its polling; goes with the element.
  var states = new WeakMap();
  var lastTouch = Date.now();

  function stateOf(element) {
    var state = states.get(element);
    if (!state) {
      state = { etag: "", path: "", busy: false, stopped: false, failures: 0, notBefore: 0 };
      states.set(element, state);
    }
    return state;
  }

  function isPoll(element, event) {
    return !event && element instanceof Element && /(^|,)\s*every\s/.test(element.getAttribute("hx-trigger") || "");
  }

  function interval(element) {
    var found = /every\s+([\d.]+)(ms|s|m)?/.exec(element.getAttribute("hx-trigger") || "");
    if (!found) return 15000;
    return parseFloat(found[1]) * { ms: 1, s: 1000, m: 60000 }[found[2] || "ms"];
  }

  function unattended() {
    return Date.now() - lastTouch > UNATTENDED_AFTER;
  }

  function mayAsk(element) {
    var state = stateOf(element);
    return !document.hidden && !state.busy && !state.stopped && Date.now() >= state.notBefore;
  }

  document.addEventListener("htmx:confirm", function (event) {
    if (isPoll(event.detail.elt, event.detail.triggeringEvent) && !mayAsk(event.detail.elt)) event.preventDefault();
  });

  document.addEventListener("htmx:configRequest", function (event) {
    var element = event.detail.elt;
    if (!isPoll(element, event.detail.triggeringEvent)) return;
    var state = stateOf(element);
    state.busy = true;
    if (state.etag && state.path === event.detail.path) event.detail.headers["If-None-Match"] = state.etag;
  });

  document.addEventListener("htmx:afterRequest", function (event) {
    var detail = event.detail;
    if (!isPoll(detail.elt, detail.requestConfig && detail.requestConfig.triggeringEvent)) return;
    var state = stateOf(detail.elt);
    var status = detail.xhr ? detail.xhr.status : 0;
    state.busy = false;
    if (status >= 200 && status < 400) {
      state.failures = 0;
      state.notBefore = unattended() ? Date.now() + UNATTENDED_PACE - 1000 : 0;
      if (status === 286) state.stopped = true;
    } else if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
      // Signed out, or it is gone: asking again will not help.
      state.stopped = true;
    } else {
      state.failures += 1;
      state.notBefore = Date.now() + Math.min(LONGEST_WAIT, interval(detail.elt) * Math.pow(2, state.failures));
    }
  });

  // --- the reader is not disturbed -------------------------------------------------------------

  function reading(target) {
    var selection = document.getSelection();
    if (selection && !selection.isCollapsed && selection.containsNode(target, true)) return true;
    var active = document.activeElement;
    return target.contains(active) && active.matches("input:not([type=hidden]), select, textarea");
  }

  function all(root, selector) {
    return Array.prototype.slice.call(root.querySelectorAll(selector));
  }

  var FOCUSABLE = "a[href], button, summary, [tabindex]";

  function nameOf(element) {
    return [element.tagName, element.id, element.getAttribute("href"), element.textContent.trim()].join("\n");
  }

  // What the reader has opened, scrolled and focused, to be found again in the new version.
  function posture(target) {
    var focused = target.contains(document.activeElement) ? nameOf(document.activeElement) : "";
    return {
      focused: focused,
      open: all(target, "details[open] > summary").map(nameOf),
      scrolled: all(target, ".table-responsive").map(function (scroller) { return scroller.scrollLeft; }),
    };
  }

  function resume(target, before) {
    all(target, "details > summary").forEach(function (summary) {
      if (before.open.indexOf(nameOf(summary)) >= 0) summary.parentElement.open = true;
    });
    all(target, ".table-responsive").forEach(function (scroller, index) {
      if (before.scrolled[index]) scroller.scrollLeft = before.scrolled[index];
    });
    if (!before.focused) return;
    var again = all(target, FOCUSABLE).filter(function (element) { return nameOf(element) === before.focused; })[0];
    if (again) again.focus({ preventScroll: true });
  }

  document.addEventListener("htmx:beforeSwap", function (event) {
    var detail = event.detail;
    if (!detail.shouldSwap || !isPoll(detail.elt, detail.requestConfig.triggeringEvent)) return;
    if (reading(detail.target)) {
      // The next poll brings it: the version that is there stays the one that is known.
      detail.shouldSwap = false;
      return;
    }
    detail.cdPosture = posture(detail.target);
    detail.requestConfig.cdPosture = detail.cdPosture;
  });

  document.addEventListener("htmx:afterSwap", function (event) {
    var detail = event.detail;
    var now = detail.target && detail.target.id && document.getElementById(detail.target.id);
    if (!now || !detail.requestConfig) return;
    if (/(^|,)\s*every\s/.test(now.getAttribute("hx-trigger") || "")) {
      var state = stateOf(now);
      state.etag = detail.xhr.getResponseHeader("ETag") || "";
      state.path = now.getAttribute("hx-get");
      // It is finished, whatever the new version says of polling.
      if (detail.xhr.status === 286) state.stopped = true;
      if (unattended()) state.notBefore = Date.now() + UNATTENDED_PACE - 1000;
    }
    if (detail.requestConfig.cdPosture) resume(now, detail.requestConfig.cdPosture);
  });

  // --- at once when somebody is back -----------------------------------------------------------

  function askNow() {
    all(document, "[hx-trigger*='every ']").forEach(function (element) {
      var state = stateOf(element);
      if (!state.failures) state.notBefore = 0;
      if (mayAsk(element)) window.htmx.ajax("GET", element.getAttribute("hx-get"), { source: element, target: element, swap: element.getAttribute("hx-swap") });
    });
  }

  function touched() {
    var away = unattended();
    lastTouch = Date.now();
    if (away) askNow();
  }

  document.addEventListener("visibilitychange", function () {
    if (!document.hidden) {
      lastTouch = Date.now();
      askNow();
    }
  });
  window.addEventListener("online", function () {
    all(document, "[hx-trigger*='every ']").forEach(function (element) { stateOf(element).notBefore = 0; });
    askNow();
  });
  ["pointerdown", "pointermove", "keydown", "wheel"].forEach(function (name) {
    document.addEventListener(name, touched, { passive: true });
  });
})();
