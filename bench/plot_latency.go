package main

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A percentile is a percentile in the latency plot, with the shape and color of its
// mark.
type percentile struct {
	name  string
	of    func(Row) float64
	shape draw.GlyphDrawer
	color color.Color
}

func percentiles() []percentile {
	return []percentile{
		{"p50", func(r Row) float64 { return r.P50 }, draw.CircleGlyph{}, color.RGBA{R: 24, G: 90, B: 169, A: 255}},
		{"p99", func(r Row) float64 { return r.P99 }, draw.BoxGlyph{}, color.RGBA{R: 230, G: 126, B: 34, A: 255}},
		{"p99.9", func(r Row) float64 { return r.P999 }, draw.PyramidGlyph{}, color.RGBA{R: 192, G: 57, B: 43, A: 255}},
	}
}

// latencyPlot returns a plot with a line from p50 to p99.9 for each row of the common
// state. The scale is logarithmic. The fastest row is at the top.
func latencyPlot(size int, rows []Row) (p *plot.Plot, height vg.Length, err error) {
	rows, others := sameState(rows)
	slices.SortStableFunc(rows, bySpeed)
	p = newPlot(fmt.Sprintf("Round trip of a message of %s", bytesOf(size)), rows, others)
	p.X.Label.Text = "µs"
	// A blank label widens the margin, which would be too narrow for long names.
	p.Y.Label.Text = " "
	p.Add(grid())
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = r.label()
		span, err := plotter.NewLine(plotter.XYs{{X: r.P50 / 1e3, Y: float64(i)}, {X: r.P999 / 1e3, Y: float64(i)}})
		if err != nil {
			return nil, 0, err
		}
		span.Color, span.Width = grey(170), vg.Points(2)
		p.Add(span)
	}
	for _, mark := range percentiles() {
		if err := mark.add(p, rows); err != nil {
			return nil, 0, err
		}
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(rows))-0.5
	logarithmic(&p.X, slices.MinFunc(rows, lessP50).P50/1e3, slices.MaxFunc(rows, lessP999).P999/1e3)
	return p, vg.Points(90 + 22*float64(len(rows))), nil
}

func lessP50(a, b Row) int { return -bySpeed(a, b) }

func lessP999(a, b Row) int { return cmp.Compare(a.P999, b.P999) }

// add adds the marks of all rows to the plot.
func (m percentile) add(p *plot.Plot, rows []Row) error {
	points := make(plotter.XYs, len(rows))
	for i, r := range rows {
		points[i] = plotter.XY{X: m.of(r) / 1e3, Y: float64(i)}
	}
	marks, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	marks.GlyphStyle = draw.GlyphStyle{Color: m.color, Radius: vg.Points(3.5), Shape: m.shape}
	p.Add(marks)
	p.Legend.Add(m.name, marks)
	return nil
}
