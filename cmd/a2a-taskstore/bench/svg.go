package bench

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// chart is a plot of lines over a logarithmic scale of costs or rates.
type chart struct {
	title  string
	x, y   string // what the axes show
	logX   bool
	series []series
}

type series struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

// charts returns the plots of a report, by file name.
func (r *Report) charts() map[string]*chart {
	out := map[string]*chart{}
	add := func(name string, c chart, s series) {
		if out[name] == nil {
			out[name] = &c
		}
		out[name].series = append(out[name].series, s)
	}
	for i := range r.Results {
		res := &r.Results[i]
		switch res.Workload {
		case "w1":
			c := chart{
				title: fmt.Sprintf("Chunks of %d bytes appended to one artifact (%s)", res.Size, res.Backend),
				x:     "events so far", y: "µs per event",
			}
			s := series{name: res.System}
			for n, cost := range stepCosts(res.Samples, stepMicros) {
				if cost > 0 { // a logarithm needs it
					s.points = append(s.points, point{float64(res.Samples[0].Steps[n].Events), cost})
				}
			}
			add(fmt.Sprintf("cost-per-event-%s-%d.svg", res.Backend, res.Size), c, s)
		case "save", "get", "list", "mix":
			name := fmt.Sprintf("throughput-%s-%s-%d.svg", res.Workload, res.Backend, res.Size)
			p := point{float64(res.Callers), median(res.values(Throughput))}
			if !(p.y > 0) {
				continue
			}
			if c := out[name]; c != nil {
				if j := slices.IndexFunc(c.series, func(s series) bool { return s.name == res.System }); j >= 0 {
					c.series[j].points = append(c.series[j].points, p)
					continue
				}
			}
			c := chart{
				title: fmt.Sprintf("%s, tasks of %d bytes (%s)", res.Workload, res.Size, res.Backend),
				x:     "callers", y: "calls per second", logX: true,
			}
			add(name, c, series{res.System, []point{p}})
		}
	}
	return out
}

// The layout of a chart, in pixels.
const (
	width, height            = 720, 420
	left, right, top, bottom = 80, 140, 40, 50
)

// palette tells lines apart, also for most who do not see all colours (Okabe and Ito).
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// axis maps values to pixels.
type axis struct {
	min, max float64
	log      bool
	from, to float64
}

func (a *axis) at(v float64) float64 {
	lo, hi := a.min, a.max
	if a.log {
		lo, hi, v = math.Log(lo), math.Log(hi), math.Log(v)
	}
	if lo == hi {
		return (a.from + a.to) / 2
	}
	return a.from + (v-lo)/(hi-lo)*(a.to-a.from)
}

// svg draws the chart.
func (c *chart) svg() []byte {
	x := axis{min: math.Inf(1), log: c.logX, from: left, to: width - right}
	y := axis{min: math.Inf(1), log: true, from: height - bottom, to: top}
	for _, s := range c.series {
		for _, p := range s.points {
			x.min, x.max = min(x.min, p.x), max(x.max, p.x)
			y.min, y.max = min(y.min, p.y), max(y.max, p.y)
		}
	}
	var yTicks []float64
	if y.min <= y.max {
		yTicks = ticks(y.min, y.max)
		y.min, y.max = yTicks[0], yTicks[len(yTicks)-1]
	}

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	label(&b, left, 22, "start", c.title)
	label(&b, (left+width-right)/2, height-12, "middle", c.x)
	label(&b, 8, top-8, "start", c.y)
	for _, v := range yTicks {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%[3].1f" stroke="#ddd"/>`+"\n", left, width-right, y.at(v))
		label(&b, left-6, y.at(v)+4, "end", number(v))
	}
	for _, v := range c.xTicks() {
		label(&b, x.at(v), height-bottom+18, "middle", number(v))
	}
	for i, s := range c.series {
		color := palette[i%len(palette)]
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, color)
		for _, p := range s.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", x.at(p.x), y.at(p.y))
		}
		b.WriteString("\"/>\n")
		for _, p := range s.points {
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x.at(p.x), y.at(p.y), color)
		}
		at := float64(top + 10 + 20*i)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%[3].1f" stroke="%s" stroke-width="2"/>`+"\n", width-right+12, width-right+32, at, color)
		label(&b, width-right+38, at+4, "start", s.name)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func label(b *bytes.Buffer, x, y float64, anchor, text string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	xml.EscapeText(b, []byte(text)) // a Buffer does not fail
	b.WriteString("</text>\n")
}

// xTicks are the values that were measured, which are few.
func (c *chart) xTicks() []float64 {
	var all []float64
	for _, s := range c.series {
		for _, p := range s.points {
			all = append(all, p.x)
		}
	}
	slices.SortFunc(all, cmp.Compare)
	return slices.Compact(all)
}

// ticks returns 1, 2 and 5 times powers of ten, from at most the least value to at least the greatest. Both are positive.
func ticks(least, greatest float64) []float64 {
	var out []float64
	for power := math.Pow(10, math.Floor(math.Log10(least))); ; power *= 10 {
		for _, digit := range []float64{1, 2, 5} {
			v := digit * power
			if v <= least {
				out = out[:0]
			}
			out = append(out, v)
			if v >= greatest {
				return out
			}
		}
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
