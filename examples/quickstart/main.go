// Command quickstart recognises handwritten digits: it compiles a small convolutional network that is embedded in the
// program, runs it on PNG files, and prints the predictions and how the network was carved.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart my-digit.png
//
// Without arguments it reads ten samples that are embedded too. A PNG of its own is white on black, square, at least 8
// pixels wide. The model is trained by train/train.py.
package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"image"
	_ "image/png"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

//go:embed digits.onnx testdata/*.png
var files embed.FS

// side is the model's image size in pixels.
const side = 8

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, paths []string) error {
	names, pixels, err := load(paths)
	if err != nil {
		return err
	}

	// Load, compile, run: this is all of carve that a program needs.
	model, err := carve.OpenFS(ctx, files, "digits.onnx")
	if err != nil {
		return err
	}
	defer model.Close()
	program, err := carve.Compile(ctx, model, nil)
	if err != nil {
		return err
	}
	defer program.Close()
	images := tensor.From(pixels, len(names), 1, side, side)
	outputs, err := program.Run(ctx, map[string]tensor.Value{"image": images})
	if err != nil {
		return err
	}

	probabilities := tensor.Elements[float32](outputs["probabilities"].(*tensor.Tensor))
	for i, name := range names {
		digit, p := best(probabilities[10*i : 10*i+10])
		fmt.Fprintf(w, "%-12s looks like a %d (%.0f%%)\n", name, digit, 100*p)
	}
	report, err := program.Report(ctx, nil)
	if err != nil {
		return err
	}
	printReport(w, report)
	return nil
}

// load returns the names and the pixels of the images, one after the other.
func load(paths []string) (names []string, pixels []float32, err error) {
	read := os.ReadFile
	if len(paths) == 0 {
		read = files.ReadFile
		for d := range 10 {
			paths = append(paths, fmt.Sprintf("testdata/digit-%d.png", d))
		}
	}
	for _, path := range paths {
		data, err := read(path)
		if err != nil {
			return nil, nil, err
		}
		img, _, err := image.Decode(bytes.NewReader(data))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if b := img.Bounds(); b.Dx() != b.Dy() || b.Dx() < side {
			return nil, nil, fmt.Errorf("%s: %d by %d pixels, want a square of at least %d", path, b.Dx(), b.Dy(), side)
		}
		names = append(names, filepath.Base(path))
		pixels = append(pixels, shrink(img)...)
	}
	return names, pixels, nil
}

// shrink returns the means of 8 by 8 areas of a square image, 0 for black to 1 for white.
func shrink(img image.Image) []float32 {
	b := img.Bounds()
	out := make([]float32, side*side)
	for i := range out {
		x0, x1 := b.Dx()*(i%side)/side, b.Dx()*(i%side+1)/side
		y0, y1 := b.Dy()*(i/side)/side, b.Dy()*(i/side+1)/side
		var sum float64
		for y := y0; y < y1; y++ {
			for x := x0; x < x1; x++ {
				r, g, bl, _ := img.At(b.Min.X+x, b.Min.Y+y).RGBA()
				sum += float64(r+g+bl) / (3 * 0xffff)
			}
		}
		out[i] = float32(sum / float64((x1-x0)*(y1-y0)))
	}
	return out
}

// best returns the index of the largest value, and the value.
func best(p []float32) (int, float32) {
	at := 0
	for i, x := range p {
		if x > p[at] {
			at = i
		}
	}
	return at, p[at]
}

func printReport(w io.Writer, r *carve.Report) {
	fmt.Fprintln(w, "\ngroups")
	for _, g := range r.Groups {
		fmt.Fprintf(w, "  %d on %s: %s\n", g.ID, g.Backend, strings.Join(g.Nodes, ", "))
		fmt.Fprintf(w, "    runs %s\n", strings.Join(g.Ops, ", "))
	}
	fmt.Fprintln(w, "conversions")
	for _, c := range r.Conversions {
		when := "at each run, between groups"
		if c.Constant {
			when = "when the model is compiled"
		} else if c.Group != nil {
			when = fmt.Sprintf("at each run, in group %d", *c.Group)
		}
		fmt.Fprintf(w, "  %s from %s to %s, %d bytes, %s\n", c.Value, c.From, c.To, c.Bytes, when)
	}
	fmt.Fprintln(w, "memory")
	for _, d := range r.Devices {
		fmt.Fprintf(w, "  %s: arena %d bytes, lower bound %d, without a plan %d\n", d.Name, d.Arena, d.LowerBound, d.Naive)
	}
}
