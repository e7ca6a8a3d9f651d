// The allocation timeline: who held which device, node, or on behalf of which project, as bars on lanes.
//
// It stays fluid with ten thousand bars because a lane is one element: all bars of one colour in it are one
// path, only lanes and bars in sight are put into it, and bars too short to be seen are drawn together. The
// server does the same with what is shorter than a pixel of the window that it is asked for; a window beyond,
// or much finer than, what is there is loaded when the view comes to rest.
(function () {
  "use strict";
  if (!window.echarts || !window.claimdeskCharts) return;

  var HUES = 8;
  var LANE = 22;
  var MOST_TRACKS = 8;
  var SHOWN_LANES = 24;
  var SECOND = 1000;
  var SPANS = { day: 86400 * SECOND, week: 7 * 86400 * SECOND, month: 30 * 86400 * SECOND };
  var SHORTEST = 60 * SECOND;
  var LONGEST = 3 * 365 * 86400 * SECOND;

  // Many rectangles as one path.
  var Rects = window.echarts.graphic.extendShape({
    shape: { rects: [] },
    buildPath: function (context, shape) {
      var rects = shape.rects;
      for (var i = 0; i < rects.length; i += 4) context.rect(rects[i], rects[i + 1], rects[i + 2], rects[i + 3]);
    },
  });
  window.echarts.graphic.registerShape("cdRects", Rects);

  // Lanes from the columns of the answer: bars in order of time, each on the first free track.
  function lanesOf(told) {
    var lanes = told.lanes.map(function (lane) {
      return { name: lane.name, place: lane.place, note: lane.note, held: lane.held, blanks: lane.blanks, bars: [], tracks: 1 };
    });
    var columns = told.bars;
    for (var i = 0; i < columns.lane.length; i++) {
      lanes[columns.lane[i]].bars.push({
        start: columns.start[i],
        end: columns.end[i] === null ? told.now : columns.end[i],
        open: columns.end[i] === null,
        project: columns.project[i] < 0 ? "" : told.projects[columns.project[i]],
        claim: columns.claim[i],
        many: columns.many[i],
        unsure: columns.unsure[i],
        track: 0,
      });
    }
    lanes.forEach(function (lane) {
      lane.bars.sort(function (one, other) { return one.start - other.start; });
      var free = [];
      lane.longest = 0;
      lane.bars.forEach(function (bar) {
        var track = 0;
        while (track < free.length && free[track] > bar.start) track += 1;
        if (track >= MOST_TRACKS) track = MOST_TRACKS - 1;
        free[track] = Math.max(free[track] || 0, bar.end);
        bar.track = track;
        lane.longest = Math.max(lane.longest, bar.end + bar.unsure - bar.start);
      });
      lane.tracks = Math.max(free.length, 1);
    });
    return lanes;
  }

  // The first bar of a lane that may reach into what begins at `time`.
  function firstFrom(lane, time) {
    var low = 0, high = lane.bars.length;
    while (low < high) {
      var middle = (low + high) >> 1;
      if (lane.bars[middle].start + lane.longest < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function Timeline(figure) {
    this.figure = figure;
    this.canvas = figure.querySelector(".cd-chart-canvas");
    this.text = figure.dataset;
    this.url = figure.getAttribute("data-url");
    this.zone = figure.getAttribute("data-zone");
    this.language = document.documentElement.lang;
    this.hues = {};
    this.lanes = [];
    this.loaded = null;
    this.pending = null;
    var now = Number(figure.getAttribute("data-now"));
    var to = Number(figure.getAttribute("data-to")) || now;
    this.view = [Number(figure.getAttribute("data-from")) || to - SPANS[figure.getAttribute("data-range") || "week"], to];
    this.width = 0;
    this.canvas.hidden = false;
    this.chart = window.echarts.init(this.canvas, null, { renderer: "canvas" });
    this.tip = document.createElement("div");
    this.tip.className = "cd-chart-tip";
    this.tip.hidden = true;
    this.canvas.appendChild(this.tip);
    this.listen();
    this.load();
  }

  Timeline.prototype.colours = function () {
    var colour = window.claimdeskCharts.palette();
    var found = { font: colour.font };
    ["ink", "ink-soft", "line", "line-strong", "surface", "chart-blank", "chart-unavailable"].forEach(function (name) {
      found[name] = colour(name);
    });
    found.hues = [];
    for (var hue = 0; hue < HUES; hue++) found.hues.push(colour("chart-" + hue));
    colour.done();
    return found;
  };

  // A project keeps its colour for as long as the page is open.
  Timeline.prototype.hueOf = function (project) {
    if (!project) return -1;
    if (!(project in this.hues)) this.hues[project] = Object.keys(this.hues).length % HUES;
    return this.hues[project];
  };

  // --- loading ----------------------------------------------------------------------------------

  Timeline.prototype.load = function () {
    var self = this;
    var span = this.view[1] - this.view[0];
    var start = Math.max(this.view[0] - span / 2, 0), end = this.view[1] + span / 2;
    if (this.pending) this.pending.abort();
    this.pending = new AbortController();
    var url = new URL(this.url, location.href);
    url.searchParams.set("start", new Date(start).toISOString());
    url.searchParams.set("end", new Date(end).toISOString());
    this.figure.setAttribute("data-busy", "");
    fetch(url, { signal: this.pending.signal, headers: { Accept: "application/json" }, credentials: "same-origin" })
      .then(function (response) {
        if (!response.ok || response.redirected) throw new Error(String(response.status));
        return response.json();
      })
      .then(function (told) {
        self.pending = null;
        self.figure.removeAttribute("data-busy");
        self.take(told);
      })
      .catch(function (error) {
        if (error.name === "AbortError") return;
        self.pending = null;
        self.figure.removeAttribute("data-busy");
        self.say(self.text.failed);
      });
  };

  Timeline.prototype.take = function (told) {
    var self = this;
    this.lanes = lanesOf(told);
    this.loaded = {
      start: told.start,
      end: told.end,
      now: told.now,
      coarse: told.bars.many.some(function (many) { return many > 1; }),
    };
    told.projects.forEach(function (project) { self.hueOf(project); });
    this.say(told.note || (this.lanes.length ? "" : this.text.none));
    this.legend(told.projects);
    this.table();
    this.paint();
  };

  // Whether what the view shows has to be loaded: outside of what is there, or so much finer that bars that
  // were drawn together would come apart.
  Timeline.prototype.lacks = function () {
    if (!this.loaded) return true;
    var span = this.view[1] - this.view[0];
    var beyond = this.view[0] < this.loaded.start || (this.view[1] > this.loaded.end && this.loaded.end < this.loaded.now);
    return beyond || (this.loaded.coarse && span < (this.loaded.end - this.loaded.start) / 8);
  };

  Timeline.prototype.rest = function () {
    var self = this;
    clearTimeout(this.resting);
    this.resting = setTimeout(function () {
      self.window();
      if (self.lacks()) self.load();
    }, 180);
  };

  // --- drawing ----------------------------------------------------------------------------------

  Timeline.prototype.height = function () {
    return Math.min(Math.max(this.lanes.length, 3), SHOWN_LANES) * LANE + 40;
  };

  Timeline.prototype.paint = function () {
    var self = this;
    var colours = this.colours();
    this.width = this.figure.clientWidth;
    var narrow = this.width < 640;
    var many = this.lanes.length > SHOWN_LANES;
    var height = this.height();
    // Set through the object model: the policy forbids style attributes only.
    this.canvas.style.height = height + "px";
    this.chart.resize();
    this.chart.setOption({
      animation: false,
      textStyle: { fontFamily: colours.font, color: colours.ink },
      grid: { left: narrow ? 92 : 188, right: many ? 26 : 10, top: 6, bottom: 30 },
      xAxis: {
        type: "time",
        min: this.view[0],
        max: this.view[1],
        axisLine: { lineStyle: { color: colours["line-strong"] } },
        axisTick: { show: false },
        splitLine: { show: true, lineStyle: { color: colours.line } },
        splitNumber: narrow ? 3 : 7,
        axisLabel: { color: colours["ink-soft"], fontSize: 11, hideOverlap: true, formatter: function (value) { return self.tick(value); } },
      },
      yAxis: {
        type: "category",
        inverse: true,
        data: this.lanes.map(function (lane, index) { return index; }),
        axisLine: { show: false },
        axisTick: { show: false },
        splitLine: { show: true, interval: 0, lineStyle: { color: colours.line } },
        axisLabel: {
          color: colours.ink,
          fontSize: 11,
          width: narrow ? 80 : 174,
          overflow: "truncate",
          interval: 0,
          rich: { place: { color: colours["ink-soft"], fontSize: 11 } },
          formatter: function (index) {
            var lane = self.lanes[index];
            if (!lane) return "";
            // The name first: a long place is cut, not what it is the place of.
            return lane.place && !narrow ? lane.name + "  {place|" + lane.place.replace(/[{}|]/g, "") + "}" : lane.name;
          },
        },
      },
      dataZoom: many
        ? [
            { type: "slider", yAxisIndex: 0, right: 4, width: 12, startValue: 0, endValue: SHOWN_LANES - 1, zoomLock: true, brushSelect: false, showDetail: false, showDataShadow: false, borderColor: "transparent", backgroundColor: colours["chart-blank"], fillerColor: colours["line-strong"], handleSize: 0, moveHandleSize: 0, filterMode: "filter" },
            { type: "inside", yAxisIndex: 0, startValue: 0, endValue: SHOWN_LANES - 1, zoomLock: true, zoomOnMouseWheel: false, moveOnMouseMove: false, moveOnMouseWheel: true, filterMode: "filter" },
          ]
        : [],
      series: [
        {
          type: "custom",
          clip: true,
          silent: true,
          data: this.lanes.map(function (lane, index) { return [self.view[0], index]; }),
          encode: { x: -1, y: 1 },
          renderItem: function (params, api) { return self.lane(params, api, colours); },
        },
      ],
    }, { notMerge: true });
    this.window();
  };

  // One lane: blanks, then the bars of each colour as one path, then what is uncertain of their ends.
  Timeline.prototype.lane = function (params, api, colours) {
    var lane = this.lanes[api.value(1)];
    // A change of size draws what the chart knows, which may be more lanes than there are now.
    if (!lane) return null;
    var area = params.coordSys;
    var middle = api.coord([this.view[0], api.value(1)])[1];
    var band = Math.abs(api.size([0, 1])[1]);
    var scale = area.width / (this.view[1] - this.view[0]);
    var start = this.view[0], left = area.x, right = area.x + area.width;
    var inner = Math.max(band - 6, 4), top = middle - inner / 2, thick = inner / lane.tracks;

    function x(time) {
      return Math.min(Math.max(left + (time - start) * scale, left - 2), right + 2);
    }
    var paths = {};
    function put(hue, from, to, y, height) {
      (paths[hue] || (paths[hue] = [])).push(from, y, Math.max(to - from, 1), height);
    }
    lane.blanks.forEach(function (blank) {
      if (blank[1] > start && blank[0] < this.view[1]) put("blank", x(blank[0]), x(blank[1]), middle - band / 2, band);
    }, this);

    // Per track: the bar that is being drawn, as long as the next one starts within its last pixel.
    var drawn = [];
    for (var i = firstFrom(lane, start); i < lane.bars.length; i++) {
      var bar = lane.bars[i];
      if (bar.start > this.view[1]) break;
      if (bar.end + bar.unsure < start) continue;
      var hue = bar.many > 1 && !bar.project ? -1 : this.hueOf(bar.project);
      var from = x(bar.start), to = x(bar.end), y = top + bar.track * thick, last = drawn[bar.track];
      if (last && to - from < 1.5 && from - last.to < 0.75) {
        last.to = Math.max(last.to, to);
        if (last.hue !== hue) last.hue = -1;
      } else {
        if (last) put(last.hue, last.from, last.to, last.y, thick - 1);
        // A hair between neighbours.
        drawn[bar.track] = { from: from, to: to - from > 3 ? to - 0.75 : to, y: y, hue: hue };
      }
      if (bar.unsure * scale > 1) put("unsure", to, x(bar.end + bar.unsure), y, thick - 1);
    }
    drawn.forEach(function (last) {
      if (last) put(last.hue, last.from, last.to, last.y, thick - 1);
    });
    return {
      type: "group",
      children: Object.keys(paths).sort().map(function (hue) {
        var fill = hue === "blank" ? colours["chart-blank"] : hue === "unsure" ? colours["line-strong"] : hue === "-1" ? colours["chart-unavailable"] : colours.hues[hue];
        return { type: "cdRects", z2: hue === "blank" ? 0 : 1, shape: { rects: paths[hue] }, style: { fill: fill }, silent: true };
      }),
    };
  };

  Timeline.prototype.show = function (from, to) {
    var span = Math.min(Math.max(to - from, SHORTEST), LONGEST);
    var middle = (from + to) / 2;
    this.view = [middle - span / 2, middle + span / 2];
    this.hide();
    var self = this;
    if (!this.frame) {
      this.frame = requestAnimationFrame(function () {
        self.frame = 0;
        self.chart.setOption({ xAxis: { min: self.view[0], max: self.view[1] } });
      });
    }
    this.rest();
  };

  // `at`: the part of the view (0 … 1) that stays where it is.
  Timeline.prototype.zoom = function (factor, at) {
    var span = this.view[1] - this.view[0];
    var wanted = Math.min(Math.max(span * factor, SHORTEST), LONGEST);
    var from = this.view[0] + (span - wanted) * at;
    this.show(from, from + wanted);
  };

  Timeline.prototype.pan = function (part) {
    var by = (this.view[1] - this.view[0]) * part;
    this.show(this.view[0] + by, this.view[1] + by);
  };

  // --- words ------------------------------------------------------------------------------------

  Timeline.prototype.format = function (time, options) {
    return new Intl.DateTimeFormat(this.language, Object.assign({ timeZone: this.zone, hourCycle: "h23" }, options)).format(time);
  };

  Timeline.prototype.tick = function (time) {
    var span = this.view[1] - this.view[0];
    if (span > 400 * 86400 * SECOND) return this.format(time, { year: "numeric", month: "short" });
    if (span > 4 * 86400 * SECOND) return this.format(time, { month: "short", day: "numeric" });
    var clock = this.format(time, { hour: "2-digit", minute: "2-digit" });
    return clock === "00:00" ? this.format(time, { month: "short", day: "numeric" }) : clock;
  };

  // As the pages write times: 2026-03-01 09:30.
  Timeline.prototype.moment = function (time) {
    var parts = {};
    new Intl.DateTimeFormat("en", { timeZone: this.zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" })
      .formatToParts(time)
      .forEach(function (part) { parts[part.type] = part.value; });
    return parts.year + "-" + parts.month + "-" + parts.day + " " + parts.hour + ":" + parts.minute;
  };

  Timeline.prototype.window = function () {
    this.figure.querySelector(".cd-timeline-window").textContent = this.moment(this.view[0]) + " – " + this.moment(this.view[1]);
  };

  Timeline.prototype.say = function (text) {
    this.figure.querySelector(".cd-timeline-note").textContent = text;
  };

  Timeline.prototype.legend = function (projects) {
    var list = this.figure.querySelector(".cd-timeline-legend");
    var self = this;
    list.textContent = "";
    function entry(name, css) {
      var item = document.createElement("li"), swatch = document.createElement("i");
      swatch.className = "cd-swatch " + css;
      item.appendChild(swatch);
      item.appendChild(document.createTextNode(name));
      list.appendChild(item);
    }
    projects.slice(0, 16).forEach(function (project) { entry(project, "cd-hue-" + self.hueOf(project)); });
    entry(this.text.nobody, "");
    if (this.lanes.some(function (lane) { return lane.blanks.length; })) entry(this.text.blank, "cd-swatch-blank");
  };

  // The same for those who do not see the canvas.
  Timeline.prototype.table = function () {
    var body = this.figure.querySelector(".cd-chart-table tbody");
    var self = this;
    body.textContent = "";
    this.lanes.forEach(function (lane) {
      var row = document.createElement("tr");
      var last = lane.bars[lane.bars.length - 1];
      var count = lane.bars.reduce(function (sum, bar) { return sum + bar.many; }, 0);
      var cells = [lane.name, lane.note, String(count), lane.held, last ? (last.project || self.text.nobody) + (last.open ? " · " + self.text.nowText : "") : ""];
      cells.forEach(function (text, column) {
        var cell = document.createElement(column === 0 ? "th" : "td");
        if (column === 0) cell.scope = "row";
        if (column === 2 || column === 3) cell.className = "cd-number";
        cell.textContent = text;
        row.appendChild(cell);
      });
      body.appendChild(row);
    });
  };

  Timeline.prototype.hide = function () {
    this.tip.hidden = true;
  };

  Timeline.prototype.point = function (x, y) {
    if (!this.loaded || !this.chart.containPixel({ gridIndex: 0 }, [x, y])) return this.hide();
    var at = this.chart.convertFromPixel({ gridIndex: 0 }, [x, y]);
    var lane = this.lanes[at[1]];
    if (!lane) return this.hide();
    var reach = 3 * (this.view[1] - this.view[0]) / this.canvas.clientWidth;
    var best = null, distance = Infinity;
    var inner = LANE - 6;
    var middle = this.chart.convertToPixel({ gridIndex: 0 }, [this.view[0], at[1]])[1];
    var track = Math.floor((y - (middle - inner / 2)) / (inner / lane.tracks));
    for (var i = firstFrom(lane, at[0] - reach); i < lane.bars.length; i++) {
      var bar = lane.bars[i];
      if (bar.start > at[0] + reach) break;
      if (bar.end + bar.unsure < at[0] - reach) continue;
      var away = Math.max(bar.start - at[0], at[0] - bar.end, 0) + Math.abs(bar.track - track) * reach;
      if (away <= distance) {
        best = bar;
        distance = away;
      }
    }
    var title = lane.name, lines = [lane.note];
    if (best) {
      title = best.many > 1 ? this.text.several.replace("{n}", String(best.many)) : best.project || this.text.nobody;
      lines = [best.claim, this.moment(best.start) + " – " + (best.open ? this.text.nowText : this.moment(best.end)), lane.name + (lane.note ? " · " + lane.note : "")];
    } else if (lane.blanks.some(function (blank) { return blank[0] <= at[0] && at[0] < blank[1]; })) {
      lines = [this.text.blank, lane.note];
    }
    this.tip.textContent = "";
    var head = document.createElement("strong");
    head.textContent = title;
    this.tip.appendChild(head);
    this.tip.appendChild(document.createTextNode(lines.filter(Boolean).join("\n")));
    this.tip.hidden = false;
    var width = this.tip.offsetWidth, height = this.tip.offsetHeight;
    this.tip.style.left = Math.min(x + 12, this.canvas.clientWidth - width - 4) + "px";
    this.tip.style.top = (y + 14 + height > this.canvas.clientHeight ? Math.max(y - height - 8, 0) : y + 14) + "px";
  };

  // --- hands ------------------------------------------------------------------------------------

  Timeline.prototype.listen = function () {
    var self = this;
    var surface = this.canvas;
    var dragged = null;

    function place(event) {
      var box = surface.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    }
    function part(event) {
      var area = self.chart.getModel().getComponent("grid").coordinateSystem.getRect();
      return Math.min(Math.max((place(event)[0] - area.x) / area.width, 0), 1);
    }
    // The page scrolls with the wheel; with Ctrl (or a pinch on a touch pad) the timeline zooms.
    surface.addEventListener("wheel", function (event) {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        event.stopPropagation();
        self.zoom(Math.exp(event.deltaY / 300), part(event));
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        self.pan(event.deltaX / surface.clientWidth);
      }
    }, { passive: false, capture: true });
    surface.addEventListener("pointerdown", function (event) {
      if (event.button !== 0 || place(event)[0] > surface.clientWidth - 24) return;
      dragged = { x: event.clientX, view: self.view.slice(), id: event.pointerId, moved: false };
    });
    surface.addEventListener("pointermove", function (event) {
      if (!dragged || dragged.id !== event.pointerId) {
        var at = place(event);
        self.point(at[0], at[1]);
        return;
      }
      var by = (dragged.x - event.clientX) / surface.clientWidth * (dragged.view[1] - dragged.view[0]);
      if (!dragged.moved && Math.abs(dragged.x - event.clientX) < 4) return;
      if (!dragged.moved) surface.setPointerCapture(event.pointerId);
      dragged.moved = true;
      self.show(dragged.view[0] + by, dragged.view[1] + by);
    });
    surface.addEventListener("pointerup", function (event) {
      if (dragged && !dragged.moved) self.point.apply(self, place(event));
      dragged = null;
    });
    surface.addEventListener("pointercancel", function () { dragged = null; });
    surface.addEventListener("pointerleave", function () { self.hide(); });
    surface.addEventListener("dblclick", function (event) { self.zoom(0.5, part(event)); });

    this.figure.addEventListener("click", function (event) {
      var button = event.target.closest("[data-do]");
      if (!button) return;
      var name = button.getAttribute("data-do");
      if (name === "in") self.zoom(0.5, 0.5);
      if (name === "out") self.zoom(2, 0.5);
      if (name === "back") self.pan(-0.5);
      if (name === "forward") self.pan(0.5);
      if (name in SPANS) {
        var now = self.loaded ? self.loaded.now : self.view[1];
        self.show(now - SPANS[name], now);
      }
    });

    this.watcher = new ResizeObserver(function () {
      if (self.loaded && self.width !== self.figure.clientWidth) self.paint();
    });
    this.watcher.observe(this.figure);
    this.theme = new MutationObserver(function () { if (self.loaded) self.paint(); });
    this.theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-bs-theme"] });
  };

  Timeline.prototype.end = function () {
    if (this.pending) this.pending.abort();
    clearTimeout(this.resting);
    this.watcher.disconnect();
    this.theme.disconnect();
    this.chart.dispose();
  };

  var timelines = [];
  function settle() {
    timelines = timelines.filter(function (timeline) {
      if (timeline.figure.isConnected) return true;
      timeline.end();
      return false;
    });
    document.querySelectorAll("[data-timeline]").forEach(function (figure) {
      if (!timelines.some(function (timeline) { return timeline.figure === figure; })) timelines.push(new Timeline(figure));
    });
    window.claimdeskCharts.timelines = timelines;
  }
  settle();
  document.addEventListener("htmx:afterSwap", settle);
})();
