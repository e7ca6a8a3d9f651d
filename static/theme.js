// Sets the theme before the first paint: as chosen here before, else as the system.
(function () {
  "use strict";
  var root = document.documentElement;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function choice() {
    try {
      var kept = localStorage.getItem("claimdesk-theme");
      return kept === "light" || kept === "dark" ? kept : "auto";
    } catch (error) {
      return "auto"; // Storage is off: follow the system.
    }
  }
  function apply() {
    var chosen = choice();
    root.setAttribute("data-theme-choice", chosen);
    root.setAttribute("data-bs-theme", chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen);
  }
  window.claimdeskTheme = { apply: apply, choice: choice };
  dark.addEventListener("change", apply);
  apply();
})();
