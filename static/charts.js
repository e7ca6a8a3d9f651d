// Stacked bar charts, drawn from the tables beneath them (templates/components/chart.html): a column is a
// series, its data-tone the colour; a cell without a number is a gap. Without this file the tables remain.
(function () {
  "use strict";
  if (!window.echarts) return;

  var charts = [];

  // The style sheet's colours as the canvas needs them: light-dark() is only resolved in a real property.
  function palette() {
    var probe = document.createElement("span");
    probe.hidden = true;
    document.body.appendChild(probe);
    var known = {};
    function colour(name) {
      if (!(name in known)) {
        probe.style.color = "var(--cd-" + name + ")";
        known[name] = getComputedStyle(probe).color;
      }
      return known[name];
    }
    colour.font = getComputedStyle(document.body).fontFamily;
    colour.done = function () { probe.remove(); };
    return colour;
  }

  function read(figure) {
    var table = figure.querySelector(".cd-chart-table table");
    var heads = Array.prototype.slice.call(table.querySelectorAll("thead th[data-tone]"));
    var rows = Array.prototype.slice.call(table.querySelectorAll("tbody tr"));
    return {
      series: heads.map(function (head, column) {
        return {
          name: head.textContent.trim(),
          tone: head.getAttribute("data-tone"),
          values: rows.map(function (row) {
            var text = row.querySelectorAll("td")[column].getAttribute("data-v");
            return text === "" ? null : Number(text);
          }),
          shown: rows.map(function (row) { return row.querySelectorAll("td")[column].textContent; }),
        };
      }),
      labels: rows.map(function (row) { return row.querySelector("th").textContent; }),
      ticks: rows.map(function (row) { return row.getAttribute("data-tick"); }),
    };
  }

  // Runs of rows of which nothing is known, as [first, last].
  function blanks(data) {
    var runs = [];
    data.ticks.forEach(function (tick, row) {
      if (data.series.some(function (series) { return series.values[row] !== null; })) return;
      var last = runs[runs.length - 1];
      if (last && last[1] === row - 1) last[1] = row;
      else runs.push([row, row]);
    });
    return runs;
  }

  function option(figure, data, colour) {
    var touching = figure.hasAttribute("data-touching");
    var soft = colour("ink-soft");
    var digits = new Intl.NumberFormat(document.documentElement.lang, { notation: "compact", maximumFractionDigits: 1 });
    return {
      animation: false,
      textStyle: { fontFamily: colour.font, color: colour("ink") },
      grid: { left: 8, right: 8, top: 40, bottom: 8, containLabel: true },
      legend: { top: 0, left: 0, icon: "roundRect", itemWidth: 10, itemHeight: 10, itemGap: 14, inactiveColor: colour("line-strong"), textStyle: { color: soft, fontSize: 12 } },
      tooltip: {
        trigger: "axis",
        renderMode: "richText",
        confine: true,
        backgroundColor: colour("raised"),
        borderColor: colour("line-strong"),
        borderWidth: 1,
        textStyle: { color: colour("ink"), fontSize: 12 },
        axisPointer: { type: touching ? "line" : "shadow", lineStyle: { color: colour("line-strong") }, shadowStyle: { color: colour("line"), opacity: 0.4 } },
        formatter: function (parts) {
          var row = parts[0].dataIndex;
          var lines = data.series
            .filter(function (series) { return series.values[row] !== null && (series.values[row] !== 0 || touching); })
            .map(function (series) { return series.name + "  " + series.shown[row]; });
          if (!lines.length) lines = [figure.getAttribute("data-blank")];
          return [data.labels[row]].concat(lines).join("\n");
        },
      },
      xAxis: {
        type: "category",
        data: data.ticks,
        axisLine: { lineStyle: { color: colour("line-strong") } },
        // At every row: areas without data end at ticks.
        axisTick: { show: false, interval: 0 },
        axisLabel: { color: soft, fontSize: 11, hideOverlap: true, interval: touching ? "auto" : 0 },
      },
      yAxis: {
        type: "value",
        minInterval: 1,
        splitLine: { lineStyle: { color: colour("line") } },
        axisLabel: { color: soft, fontSize: 11, formatter: function (value) { return digits.format(value); } },
      },
      series: data.series.map(function (series, index) {
        var drawn = {
          type: "bar",
          name: series.name,
          stack: "all",
          data: series.values,
          // A hair over the edge, or the bars would show seams.
          itemStyle: { color: colour("chart-" + series.tone), borderColor: colour("chart-" + series.tone), borderWidth: touching ? 0.75 : 0 },
          emphasis: { disabled: true },
          barCategoryGap: touching ? 0 : "35%",
          barMaxWidth: touching ? null : 56,
        };
        if (index === 0) {
          drawn.markArea = {
            silent: true,
            itemStyle: { color: colour("chart-blank") },
            label: { color: soft, fontSize: 11, position: "inside" },
            data: blanks(data).map(function (run) {
              var long = run[1] - run[0] > data.ticks.length / 8;
              return [{ xAxis: run[0], name: long ? figure.getAttribute("data-blank") : "" }, { xAxis: run[1] }];
            }),
          };
        }
        return drawn;
      }),
    };
  }

  function draw(figure) {
    var canvas = figure.querySelector(".cd-chart-canvas");
    canvas.hidden = false;
    var data = read(figure);
    var chart = window.echarts.init(canvas, null, { renderer: "canvas" });
    function paint() {
      var colour = palette();
      chart.setOption(option(figure, data, colour), { notMerge: true });
      colour.done();
    }
    paint();
    var watcher = new ResizeObserver(function () { chart.resize(); });
    watcher.observe(canvas);
    charts.push({
      figure: figure,
      paint: paint,
      end: function () {
        watcher.disconnect();
        chart.dispose();
      },
    });
  }

  // Charts of parts of the page that were replaced go; new ones come.
  function settle() {
    charts = charts.filter(function (chart) {
      if (chart.figure.isConnected) return true;
      chart.end();
      return false;
    });
    document.querySelectorAll("[data-chart=bars]").forEach(function (figure) {
      if (!charts.some(function (chart) { return chart.figure === figure; })) draw(figure);
    });
  }

  window.claimdeskCharts = { palette: palette };
  settle();
  document.addEventListener("htmx:afterSwap", settle);
  new MutationObserver(function () {
    charts.forEach(function (chart) { chart.paint(); });
  }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-bs-theme"] });
})();
