package main

import (
	"html"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	vgfont "gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// An outlineCanvas draws text as outlines of its characters. So a browser needs no font.
type outlineCanvas struct {
	*vgsvg.Canvas
	texts []string
}

// FillString draws one line of text.
func (c *outlineCanvas) FillString(face vgfont.Face, at vg.Point, text string) {
	c.texts = append(c.texts, text)
	outline, err := outlineOf(&face, at, text)
	if err != nil {
		// Let the browser choose a font.
		c.Canvas.FillString(face, at, text)
		return
	}
	c.Fill(outline)
}

// description returns the texts of the plot, for readers that do not see the plot.
func (c *outlineCanvas) description() string {
	return "<desc>" + html.EscapeString(strings.Join(c.texts, "\n")) + "</desc>\n"
}

// outlineOf returns the outlines of a text at a point.
func outlineOf(face *vgfont.Face, at vg.Point, text string) (outline vg.Path, err error) {
	var buffer sfnt.Buffer
	typeface := face.Face
	ppem := fixed.I(int(typeface.UnitsPerEm()))
	scale := face.Font.Size / vg.Length(typeface.UnitsPerEm()) / 64 // fixed.Int26_6 counts in 1/64.
	var before sfnt.GlyphIndex
	for i, character := range text {
		glyph, err := typeface.GlyphIndex(&buffer, character)
		if err != nil {
			return nil, err
		}
		if kern, err := typeface.Kern(&buffer, before, glyph, ppem, font.HintingNone); i > 0 && err == nil {
			at.X += scale * vg.Length(kern)
		}
		segments, err := typeface.LoadGlyph(&buffer, glyph, ppem, nil)
		if err != nil {
			return nil, err
		}
		for _, s := range segments {
			addSegment(&outline, s, at, scale)
		}
		advance, err := typeface.GlyphAdvance(&buffer, glyph, ppem, font.HintingNone)
		if err != nil {
			return nil, err
		}
		at.X += scale * vg.Length(advance)
		before = glyph
	}
	return outline, nil
}

// addSegment adds a segment of a character's outline. The coordinates of the segment are
// relative to the character's origin, and y points down.
func addSegment(outline *vg.Path, s sfnt.Segment, origin vg.Point, scale vg.Length) {
	point := func(i int) vg.Point {
		return vg.Point{X: origin.X + scale*vg.Length(s.Args[i].X), Y: origin.Y - scale*vg.Length(s.Args[i].Y)}
	}
	switch s.Op {
	case sfnt.SegmentOpMoveTo:
		outline.Move(point(0))
	case sfnt.SegmentOpLineTo:
		outline.Line(point(0))
	case sfnt.SegmentOpQuadTo:
		outline.QuadTo(point(0), point(1))
	case sfnt.SegmentOpCubeTo:
		outline.CubeTo(point(0), point(1), point(2))
	}
}
