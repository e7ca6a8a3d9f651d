// What the pages do beyond links and forms. Everything here is a convenience: without it the portal still works.
(function () {
  "use strict";

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

  // --- htmx: trouble is shown, not swallowed (the pace of polls: live.js) ----------------------
  var trouble = document.getElementById("cd-trouble");
  function complain(kind) {
    trouble.querySelector("span").textContent = trouble.getAttribute("data-" + kind);
    trouble.hidden = false;
  }
  document.addEventListener("htmx:sendError", function () { complain("offline"); });
  document.addEventListener("htmx:timeout", function () { complain("offline"); });
  document.addEventListener("htmx:responseError", function (event) {
    complain(event.detail.xhr.status === 401 ? "signed-out" : "failed");
  });
  document.addEventListener("htmx:afterRequest", function (event) {
    if (event.detail.successful) trouble.hidden = true;
  });
  document.addEventListener("htmx:afterSwap", function (event) {
    prepare(document);
  });
})();
