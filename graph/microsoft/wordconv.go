package microsoft

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// wordConv gives words vectors: characters are looked up, convolved along the word, and of each filter the greatest is taken.
var wordConv = operator{
	name:   "WordConvEmbedding",
	schema: "in Sequence:T W:T1 B:T1 C:T1\nout Y:T1\nat char_embedding_size:int conv_window_size:int embedding_size:int\nty T=int32 T1=float",
	infer: func(c *graph.Inference) error {
		y := graph.Shape{c.Fresh(), c.Fresh()}
		if s := c.Shape(0); len(s) == 2 {
			y[0] = s[0]
		}
		if s := c.Shape(1); len(s) == 4 {
			y[1] = s[0]
		}
		c.SetType(0, graph.TensorType(tensor.Float32, y))
		return nil
	},
	eval: evalWordConv,
}

func evalWordConv(c *call) error {
	var in [4]*tensor.Tensor
	for i, rank := range []int{2, 4, 1, 2} {
		var err error
		if in[i], err = c.input(i, rank); err != nil {
			return err
		}
	}
	words, w, table := in[0], in[1], in[3]
	filters, taps, size := w.Shape[0], w.Shape[2], w.Shape[3]
	length := words.Shape[1]
	if w.Shape[1] != 1 || in[2].Shape[0] != filters || table.Shape[1] != size || taps < 1 || length < taps {
		return fmt.Errorf("%w: words %v, weights %v, characters %v", ErrShape, words, w, table)
	}
	for name, is := range map[string]int{"embedding_size": filters, "conv_window_size": taps, "char_embedding_size": size} {
		if n := c.n.Int(name, int64(is)); n != int64(is) {
			return fmt.Errorf("%w: %s %d, found %d", ErrAttribute, name, n, is)
		}
	}
	var of [4][]float32
	for i := 1; i < 4; i++ {
		var err error
		if of[i], err = c.floats(i); err != nil {
			return err
		}
	}
	chars, err := c.ints(0)
	if err != nil {
		return err
	}
	out := make([]float32, words.Shape[0]*filters)
	for i := range words.Shape[0] {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		word := chars[i*length:][:length]
		used := 0
		for _, ch := range word {
			if ch > 0 && word[0] > 0 {
				used++
			}
		}
		if used == 0 {
			continue
		}
		used = max(used, taps)
		x := make([]float32, 0, used*size)
		for _, ch := range word[:used] {
			if ch < 0 || ch >= int64(table.Shape[0]) {
				return fmt.Errorf("%w: character %d of %d", ErrShape, ch, table.Shape[0])
			}
			x = append(x, of[3][int(ch)*size:][:size]...)
		}
		for f := range filters {
			most := math.Inf(-1)
			for at := range used - taps + 1 {
				sum := float64(of[2][f])
				for j, v := range of[1][f*taps*size:][:taps*size] {
					sum += float64(v) * float64(x[at*size+j])
				}
				most = max(most, math.Tanh(sum))
			}
			out[i*filters+f] = float32(most)
		}
	}
	return c.put(0, tensor.Float32, out, words.Shape[0], filters)
}
