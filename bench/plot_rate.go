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
	name string
	// Peer and path. The color depends on it.
	path string
	// Mode. The shape of the marks depends on it.
	mode  string
	rates plotter.XYs
}

// shape returns the shape of the points that belong to a mode.
func shape(mode string) draw.GlyphDrawer {
	switch mode {
	case "event":
		return draw.CircleGlyph{}
	case "adaptive":
		return draw.PyramidGlyph{}
	}
	return draw.BoxGlyph{}
}

// pathColor returns the color of the path with index n.
func pathColor(n int) color.Color { return plotutil.DarkColors[n%len(plotutil.DarkColors)] }

// curvesOf returns a curve for each variant that has rows.
func curvesOf(rows []Row) (curves []*curve) {
	for _, r := range rows {
		i := slices.IndexFunc(curves, func(c *curve) bool { return c.name == r.label() })
		if i < 0 {
			i = len(curves)
			curves = append(curves, &curve{name: r.label(), path: r.Peer + "/" + r.Path, mode: r.Mode})
		}
		curves[i].rates = append(curves[i].rates, plotter.XY{X: float64(r.InFlight), Y: r.MsgsPerSec})
	}
	for _, c := range curves {
		slices.SortFunc(c.rates, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	}
	return curves
}

// ratePlot returns a plot of the rate over the number of messages in flight. Both scales
// are logarithmic.
func ratePlot(size int, rows []Row) (*plot.Plot, error) {
	p := newPlot(fmt.Sprintf("Stream of messages of %s", bytesOf(size)))
	p.X.Label.Text, p.Y.Label.Text = "messages in flight", "messages/s"
	p.Add(grid())
	var paths []string
	for _, c := range curvesOf(rows) {
		if !slices.Contains(paths, c.path) {
			paths = append(paths, c.path)
		}
		line, points, err := plotter.NewLinePoints(c.rates)
		if err != nil {
			return nil, err
		}
		line.Color = pathColor(slices.Index(paths, c.path))
		line.Width = vg.Points(1.5)
		points.GlyphStyle = draw.GlyphStyle{Color: line.Color, Radius: vg.Points(3), Shape: shape(c.mode)}
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
		ticks = append(ticks, plot.Tick{Value: n, Label: strconv.Itoa(r.InFlight)})
	}
	axis.Max *= roomForLegend
	axis.Tick.Marker = slices.CompactFunc(ticks, func(a, b plot.Tick) bool { return a == b })
}
