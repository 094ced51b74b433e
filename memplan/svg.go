package memplan

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// SVGOptions are the settings of WriteSVG. Nil and the zero value mean
// defaults.
type SVGOptions struct {
	Title         string // heading; empty means none
	Capacity      int64  // drawn as a line; 0 means none
	Times         string // what times count; empty means "time"
	Offsets       string // what offsets count; empty means "offset"
	Width, Height int    // of the picture in pixels; 0 means 1200 and 800
}

const (
	svgLeft, svgRight = 110.0, 20.0 // margins in pixels
	svgTop, svgBottom = 60.0, 48.0
	svgMaxSide        = 1 << 15
)

// svgFrame maps time and offset to pixels.
type svgFrame struct {
	out            *bufio.Writer
	begin, end     float64 // time
	high           float64 // offset
	left, top      float64
	width, height  float64
	pixelW, pixelH int
}

// WriteSVG draws the arena over time: time to the right, offsets upwards, and
// every buffer a rectangle for each interval in which it takes space, with its
// id, size, offset and lifetime as a tooltip, and as much of the end of its id
// as there is room for. Lines show the height, the lower bound and the
// capacity; a legend has their values. The same input
// gives the same bytes. It returns *InputError for faulty buffers or options,
// *ConflictError when the plan has not one offset per buffer, and what w
// returns. Cost O(n).
func WriteSVG(w io.Writer, bufs []Buffer, plan Plan, o *SVGOptions) error {
	var opt SVGOptions
	if o != nil {
		opt = *o
	}
	if err := checkBuffers(bufs); err != nil {
		return err
	}
	if opt.Width < 0 || opt.Height < 0 || opt.Width > svgMaxSide || opt.Height > svgMaxSide {
		return &InputError{Buffer: -1, Field: "width and height", Reason: fmt.Sprintf("must be from 0 to %d", svgMaxSide)}
	}
	if len(plan.Offsets) != len(bufs) {
		return &ConflictError{A: len(bufs), B: -1,
			Reason: fmt.Sprintf("is the number of buffers, but there are %d offsets", len(plan.Offsets))}
	}
	f := newSVGFrame(w, bufs, plan, &opt)
	f.head(bufs, plan, &opt)
	f.axes(cmp.Or(opt.Times, "time"), cmp.Or(opt.Offsets, "offset"))
	var spans []Interval
	for i := range bufs {
		spans = appendSpans(spans[:0], &bufs[i])
		f.buffer(&bufs[i], i, plan.Offsets[i], spans)
	}
	// The bound comes last: dashed, it shows what it lies upon.
	lines := []svgLine{{"height", plan.Height}, {"bound", plan.LowerBound}}
	if opt.Capacity > 0 {
		lines = slices.Insert(lines, 0, svgLine{"capacity", opt.Capacity})
	}
	for i, l := range lines {
		f.line(l)
		f.legend(l, len(lines)-1-i)
	}
	f.out.WriteString("</svg>\n")
	if err := f.out.Flush(); err != nil {
		return fmt.Errorf("memplan: writing SVG: %w", err)
	}
	return nil
}

func newSVGFrame(w io.Writer, bufs []Buffer, plan Plan, opt *SVGOptions) *svgFrame {
	f := &svgFrame{out: bufio.NewWriter(w), begin: math.Inf(1), end: math.Inf(-1), pixelW: opt.Width, pixelH: opt.Height}
	if f.pixelW == 0 {
		f.pixelW = 1200
	}
	if f.pixelH == 0 {
		f.pixelH = 800
	}
	f.high = max(float64(plan.Height), float64(opt.Capacity), float64(plan.LowerBound), 1)
	for i := range bufs {
		if bufs[i].takesSpace() {
			f.begin = min(f.begin, float64(bufs[i].Lower))
			f.end = max(f.end, float64(bufs[i].Upper))
		}
	}
	if f.begin >= f.end {
		f.begin, f.end = 0, 1
	}
	f.left, f.top = svgLeft, svgTop
	f.width = max(1, float64(f.pixelW)-svgLeft-svgRight)
	f.height = max(1, float64(f.pixelH)-svgTop-svgBottom)
	return f
}

func (f *svgFrame) x(t float64) float64 { return f.left + (t-f.begin)/(f.end-f.begin)*f.width }

func (f *svgFrame) y(offset float64) float64 { return f.top + f.height - offset/f.high*f.height }

const svgStyle = `<style>
text{font:12px sans-serif;fill:#222}
.id{text-anchor:middle;pointer-events:none}
.tick{font-size:10px;fill:#555}
.axis{text-anchor:middle}
rect.b{stroke:#222;stroke-width:.4}
rect.b:hover{stroke-width:2}
.grid{stroke:#ddd;stroke-width:.5}
.height{stroke:#1a6;stroke-width:1.5}
.bound{stroke:#06c;stroke-width:1.5;stroke-dasharray:6 6}
.capacity{stroke:#c22;stroke-width:1.5}
</style>
`

func (f *svgFrame) head(bufs []Buffer, plan Plan, opt *SVGOptions) {
	fmt.Fprintf(f.out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n",
		f.pixelW, f.pixelH, f.pixelW, f.pixelH)
	f.out.WriteString(svgStyle)
	fmt.Fprintf(f.out, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", f.pixelW, f.pixelH)
	if opt.Title != "" {
		fmt.Fprintf(f.out, `<text x="%.0f" y="20" style="font-size:15px">%s</text>`+"\n", f.left, escapeXML(opt.Title))
	}
	ratio := 1.0
	if plan.LowerBound > 0 {
		ratio = float64(plan.Height) / float64(plan.LowerBound)
	}
	method := ""
	if plan.Method != "" {
		method = ", found by " + plan.Method
	}
	fmt.Fprintf(f.out, `<text x="%.0f" y="40">%d buffers, height / lower bound = %.4f%s</text>`+"\n", f.left, len(bufs), ratio, escapeXML(method))
}

// axes draws the grid, with rounded numbers at the lines, and names the axes.
func (f *svgFrame) axes(times, offsets string) {
	for _, v := range ticks(0, f.high, 10) {
		y := f.y(v)
		fmt.Fprintf(f.out, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, f.left, y, f.left+f.width, y)
		fmt.Fprintf(f.out, `<text class="tick" x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n", f.left-6, y+3, grouped(int64(v)))
	}
	bottom := f.top + f.height
	for _, v := range ticks(f.begin, f.end, 12) {
		x := f.x(v)
		fmt.Fprintf(f.out, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x, f.top, x, bottom)
		fmt.Fprintf(f.out, `<text class="tick" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", x, bottom+16, grouped(int64(v)))
	}
	fmt.Fprintf(f.out, `<text class="axis" x="%.1f" y="%.1f">%s</text>`+"\n", f.left+f.width/2, bottom+36, escapeXML(times))
	fmt.Fprintf(f.out, `<text class="axis" transform="translate(16 %.1f) rotate(-90)">%s</text>`+"\n", f.top+f.height/2, escapeXML(offsets))
}

// grouped writes a number with thin spaces between thousands.
func grouped(v int64) string {
	s := decimal(v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u2009" + s[i:]
	}
	return s
}

// ticks returns about count round numbers in [from, to].
func ticks(from, to float64, count int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10((to-from)/float64(count))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (to-from)/(step*m) <= float64(count) {
			step *= m
			break
		}
	}
	step = max(step, 1)
	var out []float64
	for k := math.Ceil(from / step); k*step <= to && len(out) <= 2*count; k++ {
		out = append(out, k*step)
	}
	return out
}

func (f *svgFrame) buffer(b *Buffer, i int, offset int64, spans []Interval) {
	// Neighbouring indices get hues far apart.
	hue := math.Mod(float64(i)*137.508, 360)
	name := escapeXML(nameOf(b, i))
	for _, s := range spans {
		x0, x1 := f.x(float64(s.Lower)), f.x(float64(s.Upper))
		y0, y1 := f.y(float64(offset)+float64(b.Size)), f.y(float64(offset))
		border := ""
		if min(x1-x0, y1-y0) < 3 { // it would be nothing but border
			border = ` style="stroke:none"`
		}
		fmt.Fprintf(f.out, `<rect class="b" x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="hsl(%.0f,65%%,72%%)"%s>`,
			x0, y0, x1-x0, y1-y0, hue, border)
		fmt.Fprintf(f.out, "<title>%s: size %d, offset %d, alive [%d, %d)</title></rect>\n", name, b.Size, offset, b.Lower, b.Upper)
		f.label(nameOf(b, i), x0, y0, x1, y1)
	}
}

// label writes a name into a rectangle: along its longer side where it does
// not fit across, in a type as large as fits, cut at the front where the least
// type is too large, and nothing where only a few letters would be left.
func (f *svgFrame) label(name string, x0, y0, x1, y1 float64) {
	const (
		most, least = 10.0, 6.0 // size of the type
		letter      = 0.6       // width of a letter in sizes
		few         = 4
	)
	letters := []rune(name)
	fit := func(along, across float64) float64 {
		return min(most, across-1, (along-2)/(letter*float64(max(len(letters), 1))))
	}
	across, up := fit(x1-x0, y1-y0), fit(y1-y0, x1-x0)
	turned := across < least && (up >= least || y1-y0 > x1-x0)
	along, size := x1-x0, across
	if turned {
		along, size = y1-y0, up
	}
	if size < least {
		if min(x1-x0, y1-y0)-1 < least {
			return
		}
		size = least
		keep := int((along-2)/(letter*size)) - 1
		if keep < few {
			return
		}
		letters = append([]rune{'…'}, letters[max(0, len(letters)-keep):]...)
	}
	at := fmt.Sprintf(`x="%.2f" y="%.2f"`, (x0+x1)/2, (y0+y1)/2+size*0.35)
	if turned {
		at = fmt.Sprintf(`transform="translate(%.2f %.2f) rotate(-90)"`, (x0+x1)/2+size*0.35, (y0+y1)/2)
	}
	fmt.Fprintf(f.out, `<text class="id" %s style="font-size:%.1fpx">%s</text>`+"\n", at, size, escapeXML(string(letters)))
}

// svgLine is a horizontal line at a height.
type svgLine struct {
	class string
	at    int64
}

func (l svgLine) String() string {
	name := l.class
	if name == "bound" {
		name = "lower bound"
	}
	return name + " " + grouped(l.at)
}

// line draws l.
func (f *svgFrame) line(l svgLine) {
	y := f.y(float64(l.at))
	fmt.Fprintf(f.out, `<line class="%s" x1="%.1f" y1="%.2f" x2="%.1f" y2="%.2f"><title>%s</title></line>`+"\n",
		l.class, f.left, y, f.left+f.width, y, l)
}

// legend explains l at a place counted from the right.
func (f *svgFrame) legend(l svgLine, place int) {
	const wide, sample = 200.0, 26.0
	x := f.left + f.width - float64(place+1)*wide
	fmt.Fprintf(f.out, `<line class="%s" x1="%.1f" y1="16" x2="%.1f" y2="16"/>`, l.class, x, x+sample)
	fmt.Fprintf(f.out, `<text x="%.1f" y="20">%s</text>`+"\n", x+sample+6, l)
}

// escapeXML returns s as character data; what XML cannot hold is replaced.
func escapeXML(s string) string {
	var out strings.Builder
	if err := xml.EscapeText(&out, []byte(s)); err != nil {
		return ""
	}
	return out.String()
}
