// Completion in CEL expressions from the table of attributes beside them. Without it, the table is there to read.
(function () {
  "use strict";

  var MOST = 12;
  var box = null; // The textarea whose choices are open.
  var list = document.createElement("ul");
  list.className = "cls-choices";
  list.id = "expression-choices";
  list.setAttribute("role", "listbox");
  list.hidden = true;

  function rows() {
    return Array.prototype.slice.call(document.querySelectorAll("tr[data-complete]"));
  }

  // What is being typed: the part before the caret that could be the beginning of a name.
  function word(field) {
    var before = field.value.slice(0, field.selectionStart);
    var found = /[A-Za-z_][\w.\-\/]*(\["[^"\]]*("\]?(\.\w*)?)?)?$/.exec(before);
    return found ? found[0] : "";
  }

  function fitting(text) {
    var plain = text.toLowerCase();
    var bare = plain.split(/[."\[\]]/).filter(Boolean).pop() || "";
    return rows().map(function (row) {
      return { text: row.dataset.complete, test: row.dataset.test, hint: row.dataset.hint };
    }).filter(function (choice) {
      var whole = choice.text.toLowerCase();
      return whole !== plain && (whole.indexOf(plain) === 0 || (bare.length > 1 && whole.indexOf(bare) >= 0 &&
        plain.indexOf("device.driver") !== 0));
    }).slice(0, MOST);
  }

  function close() {
    if (!box) return;
    list.hidden = true;
    box.removeAttribute("aria-activedescendant");
    box = null;
  }

  function choose(index) {
    var items = list.children;
    for (var i = 0; i < items.length; i++) {
      items[i].setAttribute("aria-selected", i === index ? "true" : "false");
    }
    if (index >= 0) {
      box.setAttribute("aria-activedescendant", items[index].id);
      items[index].scrollIntoView({ block: "nearest" });
    }
  }

  function chosen() {
    return Array.prototype.findIndex.call(list.children, function (item) {
      return item.getAttribute("aria-selected") === "true";
    });
  }

  function open(field, all) {
    var text = word(field);
    var choices = all && !text ? fitting("device.") : text.length > 1 ? fitting(text) : [];
    if (!choices.length) {
      close();
      return;
    }
    box = field;
    list.textContent = "";
    choices.forEach(function (choice, index) {
      var item = document.createElement("li");
      item.id = "expression-choice-" + index;
      item.setAttribute("role", "option");
      item.dataset.insert = choice.test;
      var code = document.createElement("code");
      code.textContent = choice.text;
      var hint = document.createElement("span");
      hint.textContent = choice.hint;
      item.append(code, hint);
      list.append(item);
    });
    list.setAttribute("aria-label", document.getElementById("h-attributes").textContent);
    field.insertAdjacentElement("afterend", list);
    list.hidden = false;
    choose(0);
  }

  function insert(item) {
    var field = box, text = word(field);
    close();
    field.focus();
    field.setRangeText(item.dataset.insert, field.selectionStart - text.length, field.selectionStart, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  }

  document.querySelectorAll("[data-completes]").forEach(function (field) {
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-controls", list.id);
    field.insertAdjacentElement("afterend", list);
    field.addEventListener("input", function (event) {
      if (event.isTrusted) open(field, false);
    });
    field.addEventListener("blur", close);
    field.addEventListener("keydown", function (event) {
      if (event.key === " " && event.ctrlKey) {
        event.preventDefault();
        open(field, true);
      }
      if (box !== field) return;
      var count = list.children.length;
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        choose((chosen() + (event.key === "ArrowDown" ? 1 : count - 1)) % count);
      } else if (event.key === "Enter" || event.key === "Tab") {
        event.preventDefault();
        insert(list.children[chosen()]);
      } else if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        close();
      }
    });
  });
  // The pointer must not take the focus from the field.
  list.addEventListener("mousedown", function (event) {
    var item = event.target.closest("li");
    event.preventDefault();
    if (item && box) insert(item);
  });

  // A guarded expression is put in place without a round to the server.
  document.addEventListener("click", function (event) {
    var button = event.target.closest("button[name=guard]");
    if (!button) return;
    var part = button.closest(".inv-check"), safe = part.querySelector("[data-guarded]");
    var field = part.parentElement.querySelector("textarea");
    if (!safe || !field) return;
    event.preventDefault();
    field.value = safe.dataset.guarded;
    field.focus();
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
})();
