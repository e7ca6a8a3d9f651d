// What the pages do beyond links and forms. Everything here is a convenience: without it the portal still works.
(function () {
  "use strict";

  // --- the reader's time zone: the desk writes times in it, unless the profile names one ------------
  try {
    var zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (zone && document.cookie.split("; ").indexOf("claimdesk-zone=" + zone) < 0) {
      document.cookie = "claimdesk-zone=" + zone + "; path=/; max-age=31536000; samesite=lax" +
        (location.protocol === "https:" ? "; secure" : "");
    }
  } catch (error) {
    // A browser that does not tell it: times are in UTC.
  }

  // --- theme: as the system, light, dark -------------------------------------------------------
  var order = ["auto", "light", "dark"];
  document.querySelectorAll("[data-theme-toggle]").forEach(function (button) {
    function name() {
      var label = button.getAttribute("data-label-" + window.claimdeskTheme.choice());
      button.setAttribute("aria-label", label);
      button.title = label;
    }
    button.hidden = false;
    name();
    button.addEventListener("click", function () {
      var next = order[(order.indexOf(window.claimdeskTheme.choice()) + 1) % order.length];
      try {
        localStorage.setItem("claimdesk-theme", next);
      } catch (error) {
        return; // Storage is off: the choice cannot be kept.
      }
      window.claimdeskTheme.apply();
      name();
    });
  });

  // --- menus: one open at a time, Escape and a click elsewhere close ---------------------------
  function closeMenus(except) {
    document.querySelectorAll("details.cd-menu[open]").forEach(function (menu) {
      if (menu !== except) menu.open = false;
    });
  }
  document.addEventListener("click", function (event) {
    closeMenus(event.target.closest("details.cd-menu"));
  });

  // Arrows walk through an open menu; Tab leaves it and closes it.
  document.addEventListener("keydown", function (event) {
    var menu = event.target.closest("details.cd-menu");
    if (!menu || ["ArrowDown", "ArrowUp", "Home", "End"].indexOf(event.key) < 0) return;
    event.preventDefault();
    menu.open = true;
    var entries = Array.prototype.slice.call(menu.querySelectorAll("a[href], button"));
    var place = entries.indexOf(document.activeElement);
    if (event.key === "Home") place = 0;
    else if (event.key === "End") place = entries.length - 1;
    else if (place < 0) place = event.key === "ArrowDown" ? 0 : entries.length - 1;
    else place = (place + (event.key === "ArrowDown" ? 1 : -1) + entries.length) % entries.length;
    if (entries[place]) entries[place].focus();
  });
  document.addEventListener("focusout", function (event) {
    var menu = event.target.closest("details.cd-menu[open]");
    if (menu && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });

  // --- the navigation on a phone: it takes the focus, keeps it, and gives it back ------------------
  var drawer = document.getElementById("site-nav");
  var burger = document.querySelector(".cd-burger");
  function drawerIsOpen() {
    return drawer !== null && location.hash === "#site-nav" && burger.offsetParent !== null;
  }
  window.addEventListener("hashchange", function (event) {
    if (drawerIsOpen()) drawer.querySelector(".cd-nav-close").focus();
    else if (/#site-nav$/.test(event.oldURL) && burger) burger.focus();
  });
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Tab" || !drawerIsOpen()) return;
    var stops = Array.prototype.slice.call(drawer.querySelectorAll("a[href], button")).filter(function (stop) {
      return stop.offsetParent !== null;
    });
    var first = stops[0], last = stops[stops.length - 1];
    if (event.shiftKey && (document.activeElement === first || !drawer.contains(document.activeElement))) {
      event.preventDefault();
      last.focus();
    } else if (!event.shiftKey && (document.activeElement === last || !drawer.contains(document.activeElement))) {
      event.preventDefault();
      first.focus();
    }
  });

  function typing(element) {
    return element.closest("input, textarea, select, [contenteditable]") !== null;
  }
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") {
      var menu = document.querySelector("details.cd-menu[open]");
      if (menu) {
        menu.open = false;
        menu.querySelector("summary").focus();
      } else if (location.hash === "#site-nav") {
        location.hash = "";
      }
    }
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !typing(event.target)) {
      var search = document.querySelector("[data-page-search]") || document.querySelector("[data-search-key]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    }
  });

  // --- forms: a filter form sends itself when a choice changes ---------------------------------
  document.addEventListener("change", function (event) {
    var form = event.target.closest("form[data-autosubmit]");
    if (form && !form.hasAttribute("hx-get") && !event.target.matches("input[type=search], input[type=text]")) {
      form.requestSubmit();
    }
  });
  // A date without its time is sent as nothing at all, which may mean "without an end". The browser says what
  // is wrong; forms without its checks are asked for that much.
  document.addEventListener("submit", function (event) {
    var form = event.target;
    if (form.method !== "post" || (event.submitter && event.submitter.formNoValidate)) return;
    var half = Array.prototype.find.call(form.elements, function (field) {
      return field.type === "datetime-local" && field.validity.badInput;
    });
    if (!half) return;
    event.preventDefault();
    event.stopPropagation();
    half.reportValidity();
  }, true);
  // A second click must not send a form twice.
  document.addEventListener("submit", function (event) {
    var form = event.target;
    if (form.method !== "post" || event.defaultPrevented || form.hasAttribute("hx-post")) return;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "true";
  });
  window.addEventListener("pageshow", function () {
    document.querySelectorAll("form[data-sent]").forEach(function (form) {
      delete form.dataset.sent;
    });
  });

  // --- going back from a page of an error, where there is something to go back to ------------------
  document.querySelectorAll("[data-back]").forEach(function (button) {
    button.hidden = history.length < 2;
    button.addEventListener("click", function () { history.back(); });
  });

  // --- copying ---------------------------------------------------------------------------------
  function prepare(root) {
    // A table wider than the screen must be scrollable by keyboard.
    root.querySelectorAll(".table-responsive").forEach(function (scroller) {
      if (scroller.scrollWidth > scroller.clientWidth) scroller.tabIndex = 0;
      else scroller.removeAttribute("tabindex");
    });
    if (!navigator.clipboard) return; // Only in secure contexts; the text can still be selected.
    root.querySelectorAll("[data-copy]").forEach(function (button) {
      button.hidden = false;
    });
  }
  prepare(document);
  window.addEventListener("resize", function () { prepare(document); });
  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-copy]");
    if (!button) return;
    var source = document.querySelector(button.getAttribute("data-copy"));
    var text = button.querySelector("span") || button;
    var before = text.textContent;
    navigator.clipboard.writeText(source.textContent).then(function () {
      text.textContent = button.getAttribute("data-copied");
      announce(text.textContent);
      setTimeout(function () {
        text.textContent = before;
      }, 1500);
    });
  });

  function announce(text) {
    document.getElementById("cd-live").textContent = text;
  }

  // --- htmx: trouble is shown with the way out, not swallowed (the pace of polls: live.js) -------
  var trouble = document.getElementById("cd-trouble");
  var failed = null; // The request to be tried again.
  var KINDS = { 401: "signed-out", 403: "forbidden", 404: "gone", 410: "gone", 429: "too-many" };
  // What helps: signing in, another try, or the page anew.
  var WAYS_OUT = {
    "offline": ["retry"], "failed": ["retry", "reload"], "too-many": ["retry"],
    "signed-out": ["sign-in"], "forbidden": ["reload"], "gone": ["reload"],
  };
  function complain(kind, detail) {
    failed = detail.requestConfig;
    trouble.querySelectorAll("[data-trouble]").forEach(function (way) {
      var name = way.getAttribute("data-trouble");
      way.hidden = name !== "close" && WAYS_OUT[kind].indexOf(name) < 0;
    });
    var here = location.pathname + location.search;
    var signIn = trouble.querySelector("[data-trouble=sign-in]");
    signIn.href = signIn.pathname + "?next=" + encodeURIComponent(here);
    trouble.hidden = false;
    trouble.querySelector("[role=alert]").textContent = trouble.getAttribute("data-" + kind);
  }
  function relieve() {
    trouble.hidden = true;
    trouble.querySelector("[role=alert]").textContent = "";
  }
  document.addEventListener("htmx:sendError", function (event) { complain("offline", event.detail); });
  document.addEventListener("htmx:timeout", function (event) { complain("offline", event.detail); });
  document.addEventListener("htmx:responseError", function (event) {
    complain(KINDS[event.detail.xhr.status] || "failed", event.detail);
  });
  document.addEventListener("htmx:afterRequest", function (event) {
    if (event.detail.successful && !trouble.hidden) relieve();
  });
  // Pages of errors have none of it.
  if (trouble) trouble.addEventListener("click", function (event) {
    var way = event.target.closest("[data-trouble]");
    if (!way) return;
    switch (way.getAttribute("data-trouble")) {
      case "retry":
        relieve();
        // With the event: a request without one is a poll, which waits for its time.
        if (failed) window.htmx.ajax(failed.verb, failed.path, { source: failed.elt, target: failed.target, event: event });
        break;
      case "reload": location.reload(); break;
      case "close": relieve(); break;
    }
  });
  document.addEventListener("htmx:afterSwap", function (event) {
    prepare(document);
  });
})();
