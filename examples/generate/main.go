// Command generate decodes greedily with a small decoder as GPT-2 is one, and prints the tokens and how many there were a second.
//
//	go run ./examples/generate [-layers 4] [-width 256] [-heads 4] [-tokens 64] [-threads 0] [-write FILE.onnx]
//
// The weights are random, from a seed, so that the tokens mean nothing; they are the same in every run. With -write it writes the model
// and decodes nothing.
//
// What keys and values of a layer hold lies in one tensor, long enough for all tokens. A step gets the part that is filled so far, and
// Options.InPlace lets it write the next rows behind that: nothing of the cache is copied, and no step is planned anew as a whole.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, args []string) error {
	c := config{seed: 1}
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	flags.IntVar(&c.layers, "layers", 4, "layers")
	flags.IntVar(&c.width, "width", 256, "columns of a layer")
	flags.IntVar(&c.heads, "heads", 4, "heads of attention, which divide the columns")
	flags.IntVar(&c.words, "words", 1000, "different tokens")
	tokens := flags.Int("tokens", 64, "tokens to decode")
	threads := flags.Int("threads", 0, "threads; 0 means all")
	write := flags.String("write", "", "write the model to a file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	prompt := []int64{1, 2, 3, 4, 5, 6, 7, 8}
	if c.layers < 1 || c.heads < 1 || c.width < c.heads || c.width%c.heads != 0 || c.words < len(prompt)+1 || *tokens < 1 {
		return fmt.Errorf("%d layers of %d columns, %d heads, %d tokens of %d", c.layers, c.width, c.heads, *tokens, c.words)
	}
	c.positions = max(len(prompt)+*tokens, 1024)
	g, err := decoder(c)
	if err != nil {
		return err
	}
	if *write != "" {
		return onnx.Save(ctx, *write, &onnx.Model{Graph: g, IRVersion: 9, Opsets: g.Opsets, Producer: "carve"}, nil)
	}
	model := carve.FromGraph(g)
	defer model.Close()
	d, err := newDecoding(ctx, model, c, len(prompt)+*tokens, *threads)
	if err != nil {
		return err
	}
	defer d.program.Close()
	next, err := d.step(ctx, prompt)
	if err != nil {
		return err
	}
	out := []int64{next}
	start := time.Now()
	for len(out) < *tokens {
		if next, err = d.step(ctx, []int64{next}); err != nil {
			return err
		}
		out = append(out, next)
	}
	fmt.Fprintln(w, "tokens:", out)
	fmt.Fprintf(w, "%.0f tokens a second behind a prompt of %d\n", float64(len(out)-1)/max(time.Since(start).Seconds(), 1e-9), len(prompt))
	return nil
}

// decoding is a decoder with its caches.
type decoding struct {
	program *carve.Program
	cache   []*tensor.Tensor // in the order of inputs and outputs: keys and values of each layer, [1, heads, room, width/heads]
	filled  int              // rows of them
	words   int
}

// newDecoding compiles the model and makes caches with room for so many tokens.
func newDecoding(ctx context.Context, m *carve.Model, c config, room, threads int) (*decoding, error) {
	o := &carve.Options{Threads: threads, InPlace: map[string]string{}}
	for layer := range c.layers {
		o.InPlace[fmt.Sprintf("past_key_%d", layer)] = fmt.Sprintf("present_key_%d", layer)
		o.InPlace[fmt.Sprintf("past_value_%d", layer)] = fmt.Sprintf("present_value_%d", layer)
	}
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return nil, err
	}
	d := &decoding{program: p, words: c.words}
	for range p.Inputs()[3:] { // behind ids, positions and mask
		d.cache = append(d.cache, tensor.From(make([]float32, c.width*room), 1, c.heads, room, c.width/c.heads))
	}
	return d, nil
}

// step runs the model for tokens behind those so far, and returns the likeliest next one.
func (d *decoding) step(ctx context.Context, tokens []int64) (int64, error) {
	rows, all := len(tokens), d.filled+len(tokens)
	positions, mask := make([]int64, rows), make([]float32, rows*all)
	for r := range rows {
		positions[r] = int64(d.filled + r)
		for k := d.filled + r + 1; k < all; k++ {
			mask[r*all+k] = float32(math.Inf(-1)) // what comes later is not seen
		}
	}
	scores := make([]float32, rows*d.words)
	in := []*tensor.Tensor{tensor.From(tokens, 1, rows), tensor.From(positions, 1, rows), tensor.From(mask, 1, 1, rows, all)}
	out := []*tensor.Tensor{tensor.From(scores, 1, rows, d.words)}
	for _, c := range d.cache {
		past, err := c.Slice(2, 0, d.filled)
		if err != nil {
			return 0, err
		}
		present, err := c.Slice(2, 0, all)
		if err != nil {
			return 0, err
		}
		in, out = append(in, past), append(out, present)
	}
	if err := d.program.RunInto(ctx, in, out); err != nil {
		return 0, err
	}
	d.filled = all
	best, last := 0, scores[(rows-1)*d.words:]
	for i, s := range last {
		if s > last[best] {
			best = i
		}
	}
	return int64(best), nil
}
