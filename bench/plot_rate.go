package main

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A curve is a line of the rate plot, for one variant of a peer.
type curve struct {
	name  string
	style style
	rates plotter.XYs
}

// A style is the color and the sign of a curve. No two curves of a plot have the same.
type style struct {
	color color.Color
	shape draw.GlyphDrawer
}

// styleOf returns the style of a curve. The color stands for peer and path, which have
// an index, and the shape for the mode. If there are more paths than colors, the others
// have outlined shapes.
func styleOf(path int, mode string) style {
	shapes := map[string][]draw.GlyphDrawer{
		"event":    {draw.CircleGlyph{}, draw.RingGlyph{}},
		"adaptive": {draw.PyramidGlyph{}, draw.TriangleGlyph{}},
		"busy":     {draw.BoxGlyph{}, draw.SquareGlyph{}},
	}[mode]
	colors := plotutil.DarkColors
	return style{colors[path%len(colors)], shapes[path/len(colors)%len(shapes)]}
}

// curvesOf returns a curve for each variant that has rows.
func curvesOf(rows []Row) (curves []*curve) {
	var paths []string
	for _, r := range rows {
		i := slices.IndexFunc(curves, func(c *curve) bool { return c.name == r.label() })
		if i < 0 {
			i = len(curves)
			path := r.Peer + "/" + r.Path
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
			curves = append(curves, &curve{name: r.label(), style: styleOf(slices.Index(paths, path), r.Mode)})
		}
		curves[i].rates = append(curves[i].rates, plotter.XY{X: float64(r.InFlight), Y: r.MsgsPerSec})
	}
	for _, c := range curves {
		slices.SortFunc(c.rates, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	}
	return curves
}

// ratePlot returns a plot of the rate over the number of messages in flight, for the rows
// of the common state. Both scales are logarithmic.
func ratePlot(size int, rows []Row) (*plot.Plot, error) {
	rows, others := sameState(rows)
	p := newPlot(fmt.Sprintf("Stream of messages of %s", bytesOf(size)), rows, others)
	p.X.Label.Text, p.Y.Label.Text = "messages in flight", "messages/s"
	p.Add(grid())
	for _, c := range curvesOf(rows) {
		line, points, err := plotter.NewLinePoints(c.rates)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = c.style.color, vg.Points(1.5)
		points.GlyphStyle = draw.GlyphStyle{Color: c.style.color, Radius: vg.Points(3), Shape: c.style.shape}
		p.Add(line, points)
		p.Legend.Add(c.name, line, points)
	}
	byRate := func(a, b Row) int { return cmp.Compare(a.MsgsPerSec, b.MsgsPerSec) }
	logarithmic(&p.Y, slices.MinFunc(rows, byRate).MsgsPerSec, slices.MaxFunc(rows, byRate).MsgsPerSec)
	inFlightAxis(&p.X, rows)
	return p, nil
}

// inFlightAxis puts ticks at the measured values and leaves space for the legend.
func inFlightAxis(axis *plot.Axis, rows []Row) {
	const roomForLegend = 20
	var ticks plot.ConstantTicks
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max = float64(rows[0].InFlight), float64(rows[0].InFlight)
	for _, r := range rows {
		n := float64(r.InFlight)
		axis.Min, axis.Max = min(axis.Min, n), max(axis.Max, n)
		if tick := (plot.Tick{Value: n, Label: strconv.Itoa(r.InFlight)}); !slices.Contains(ticks, tick) {
			ticks = append(ticks, tick)
		}
	}
	axis.Max *= roomForLegend
	axis.Tick.Marker = ticks
}
