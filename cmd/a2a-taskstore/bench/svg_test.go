package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestTicksEnclose(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		least, greatest float64
		want            []float64
	}{
		{3, 30, []float64{2, 5, 10, 20, 50}},
		{1, 1, []float64{1}},
		{10, 20, []float64{10, 20}},
		{0.3, 0.4, []float64{0.2, 0.5}},
		{999, 1001, []float64{500, 1000, 2000}},
	} {
		if got := ticks(tc.least, tc.greatest); !slices.EqualFunc(got, tc.want, same) {
			t.Errorf("ticks(%v, %v) = %v, want %v", tc.least, tc.greatest, got, tc.want)
		}
	}
}

func TestAxis(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		axis    axis
		v, want float64
	}{
		{axis{min: 0, max: 10, from: 100, to: 200}, 5, 150},
		{axis{min: 1, max: 100, from: 100, to: 200, log: true}, 10, 150},
		{axis{min: 1, max: 100, from: 300, to: 100, log: true}, 100, 100},
		{axis{min: 7, max: 7, from: 100, to: 200}, 7, 150},
	} {
		if got := tc.axis.at(tc.v); !same(got, tc.want) {
			t.Errorf("%+v at %v: %v, want %v", tc.axis, tc.v, got, tc.want)
		}
	}
}

// svgTexts parses an SVG and returns its texts and the number of its lines of points.
func svgTexts(t *testing.T, svg []byte) (texts []string, lines int) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts, lines
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		switch e := token.(type) {
		case xml.CharData:
			if s := strings.TrimSpace(string(e)); s != "" {
				texts = append(texts, s)
			}
		case xml.StartElement:
			if e.Name.Local == "polyline" {
				lines++
			}
		}
	}
}

func TestChartIsAnSVG(t *testing.T) {
	t.Parallel()
	c := &chart{title: "a < b & c", x: "callers", y: "calls per second", logX: true, series: []series{
		{"one", []point{{1, 100}, {64, 2000}}}, {"two", []point{{1, 90}}},
	}}
	texts, lines := svgTexts(t, c.svg())
	for _, want := range []string{"a < b & c", "callers", "one", "two", "1", "64", "50", "2000"} {
		if !slices.Contains(texts, want) {
			t.Errorf("no text %q in %q", want, texts)
		}
	}
	if lines != 2 {
		t.Errorf("%d lines", lines)
	}
	svgTexts(t, (&chart{title: "nothing"}).svg())
}
