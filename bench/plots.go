package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth  = 8 * vg.Inch // Width of a plot. Arbitrary.
	plotMargin = 6           // Margin in points. Arbitrary.
)

// writePlots writes SVG files: for each message size, the percentiles of the ping-pong
// and the rates of the stream.
func writePlots(dir string, rows []Row) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, size := range sizesOf(rows, workPingPong) {
		p, height, err := latencyPlot(size, rowsOf(rows, workPingPong, size))
		if err == nil {
			err = save(p, height, dir, "latency", size)
		}
		if err != nil {
			return err
		}
	}
	for _, size := range sizesOf(rows, workStream) {
		p, err := ratePlot(size, rowsOf(rows, workStream, size))
		if err == nil {
			err = save(p, plotWidth*5/8, dir, "rate", size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// save writes a plot to a file, with its text as a description.
func save(p *plot.Plot, height vg.Length, dir, name string, size int) error {
	canvas := &outlineCanvas{Canvas: vgsvg.New(plotWidth, height)}
	p.Draw(draw.Crop(draw.New(canvas), plotMargin, -plotMargin, plotMargin, -plotMargin))
	var text bytes.Buffer
	if _, err := canvas.WriteTo(&text); err != nil {
		return err
	}
	// The description must stand before the first group of the SVG element.
	svg := strings.Replace(text.String(), "<g ", canvas.description()+"<g ", 1)
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.svg", name, size)), []byte(svg), 0o644)
}

// sizesOf lists the message sizes with rows that can be plotted.
func sizesOf(rows []Row, workload string) (sizes []int) {
	for _, r := range rows {
		if len(rowsOf(rows, workload, r.Size)) > 0 && !slices.Contains(sizes, r.Size) {
			sizes = append(sizes, r.Size)
		}
	}
	return sizes
}

// rowsOf returns the rows of a workload and a size. It leaves out rows that a
// logarithmic scale can not show.
func rowsOf(rows []Row, workload string, size int) []Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
		shown := r.MsgsPerSec
		if workload == workPingPong {
			shown = min(r.P50, r.P99, r.P999)
		}
		return r.Workload != workload || r.Size != size || !(shown > 0) || math.IsInf(shown, 0)
	})
}

// newPlot returns an empty plot in the common style. The title says which rounds the rows
// come from, and how many rows have too few of them.
func newPlot(title string, same, others []Row) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	if text := caption(same); text != "" {
		p.Title.Text += "\n" + text
	}
	if n := len(tooFew(same, others)); n > 0 {
		p.Title.Text += fmt.Sprintf("\nfewer than %d such rounds: %d of %d rows", enoughRounds, n, len(same)+len(others))
	}
	p.Title.Padding = vg.Points(8)
	for _, style := range []*plot.Axis{&p.X, &p.Y} {
		style.Label.TextStyle.Font.Variant = "Sans"
		style.Label.Padding = vg.Points(4)
		style.Tick.Label.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Variant = "Sans"
	p.Legend.TextStyle.Font.Variant = "Sans"
	p.Legend.TextStyle.Font.Size = vg.Points(10)
	p.Legend.Padding = vg.Points(3)
	p.Legend.Top, p.Legend.XOffs = true, vg.Points(-6)
	return p
}

// logarithmic gives an axis a logarithmic scale between two powers of ten.
func logarithmic(axis *plot.Axis, smallest, largest float64) {
	from := math.Floor(math.Log10(smallest))
	to := max(math.Ceil(math.Log10(largest)), from+1)
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max = math.Pow(10, from), math.Pow(10, to)
	var ticks plot.ConstantTicks
	for e := from; e <= to; e++ {
		decade := math.Pow(10, e)
		ticks = append(ticks, plot.Tick{Value: decade, Label: plainNumber(decade)})
		for minor := 2.; minor < 10 && e < to; minor++ {
			ticks = append(ticks, plot.Tick{Value: minor * decade})
		}
	}
	axis.Tick.Marker = ticks
}

// plainNumber formats a power of ten, with the unit k, M or G.
func plainNumber(n float64) string {
	if n < 1 {
		return fmt.Sprintf("%.2g", n)
	}
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.0f%s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%.0f", n)
}

func grey(level uint8) color.Color { return color.Gray{Y: level} }

// grid returns faint lines for the background.
func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = grey(205), grey(205)
	return g
}

// bySpeed sorts rows from the slowest to the fastest.
func bySpeed(a, b Row) int { return cmp.Compare(b.P50, a.P50) }
