package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/sugarme/tokenizer"
	"github.com/sugarme/tokenizer/model/wordpiece"
	"github.com/sugarme/tokenizer/normalizer"
	"github.com/sugarme/tokenizer/pretokenizer"
	"github.com/sugarme/tokenizer/processor"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

// errText is wrapped by errors that the text is at fault for.
var errText = errors.New("bad text")

// An Embedder turns texts into vectors of length 1: nearby ones for texts that the model finds alike. It is safe for concurrent use:
// texts of many callers are encoded together, whatever their lengths.
type Embedder struct {
	tokens  *tokenizer.Tokenizer
	program *carve.Program
	batcher *carve.Batcher
	typed   bool // the model wants token_type_ids
	longest int
}

// NewEmbedder compiles a model with the inputs and the first output of encoder, and optionally an input token_type_ids; most is how many
// tokens it takes. vocabulary is a file with one word piece a line, whose number is its line's. The model stays the caller's to close.
func NewEmbedder(ctx context.Context, model *carve.Model, vocabulary string, most int) (*Embedder, error) {
	e := &Embedder{longest: most}
	var err error
	if e.tokens, err = pieces(vocabulary); err != nil {
		return nil, err
	}
	if e.program, err = carve.Compile(ctx, model, &carve.Options{Profile: carve.ProfileThroughput, MaxSpecializations: 64}); err != nil {
		return nil, err
	}
	for _, in := range e.program.Inputs() {
		e.typed = e.typed || in.Name == "token_type_ids"
	}
	e.batcher, err = carve.NewBatcher(e.program, &carve.BatchOptions{MaxBatch: 16, Mask: "attention_mask", Lengths: lengths(most)})
	if err == nil && e.batcher.Off() != "" {
		err = fmt.Errorf("texts cannot be encoded together: %s", e.batcher.Off())
	}
	if err != nil {
		e.program.Close()
		return nil, err
	}
	return e, nil
}

// lengths are what token counts are padded to.
func lengths(most int) (list []int) {
	for n := 8; n < most; n *= 2 {
		list = append(list, n)
	}
	return append(list, most)
}

// pieces returns BERT's tokenizer over a vocabulary: lower case, no accents, words cut into the longest pieces that it has.
func pieces(vocabulary string) (*tokenizer.Tokenizer, error) {
	model, err := wordpiece.NewWordPieceFromFile(vocabulary, "[UNK]")
	if err != nil {
		return nil, err
	}
	t := tokenizer.NewTokenizer(model)
	t.WithNormalizer(normalizer.NewBertNormalizer(true, true, true, true))
	t.WithPreTokenizer(pretokenizer.NewBertPreTokenizer())
	var ends [2]processor.PostToken
	for i, word := range []string{"[SEP]", "[CLS]"} {
		id, ok := t.TokenToId(word)
		if !ok {
			return nil, fmt.Errorf("vocabulary %s has no %s", vocabulary, word)
		}
		ends[i] = processor.PostToken{Id: id, Value: word}
	}
	t.WithPostProcessor(processor.NewBertProcessing(ends[0], ends[1]))
	return t, nil
}

// Embed returns the vector of a text: the mean over its tokens, scaled to length 1. A text of more tokens than the model takes is cut.
// Errors are those of carve.Batcher.Run, and wrap errText for a text that cannot be cut into tokens.
func (e *Embedder) Embed(ctx context.Context, text string) ([]float32, error) {
	ids, err := e.encode(text)
	if err != nil {
		return nil, err
	}
	mask := make([]int64, len(ids))
	for i := range mask {
		mask[i] = 1
	}
	inputs := map[string]tensor.Value{"input_ids": tensor.From(ids, 1, len(ids)), "attention_mask": tensor.From(mask, 1, len(ids))}
	if e.typed {
		inputs["token_type_ids"] = tensor.From(make([]int64, len(ids)), 1, len(ids))
	}
	out, err := e.batcher.Run(ctx, inputs)
	if err != nil {
		return nil, err
	}
	states, ok := out[e.program.Outputs()[0].Name].(*tensor.Tensor)
	if !ok || states.DType != tensor.Float32 || states.Rank() != 3 {
		return nil, fmt.Errorf("the model's first output is %v, no hidden states", out[e.program.Outputs()[0].Name])
	}
	return mean(tensor.Of[float32](states), states.Shape[2]), nil
}

// encode returns the tokens of a text, those of begin and end included.
func (e *Embedder) encode(text string) ([]int64, error) {
	found, err := e.tokens.EncodeSingle(text, true)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errText, err)
	}
	var ids []int64
	for _, id := range found.GetIds() {
		ids = append(ids, int64(id))
	}
	if len(ids) > e.longest { // the end stays
		ids = append(ids[:e.longest-1], ids[len(ids)-1])
	}
	return ids, nil
}

// mean returns the mean of rows of a width, scaled to length 1.
func mean(rows []float32, width int) []float32 {
	sum, square := make([]float64, width), 0.0
	for i, v := range rows {
		sum[i%width] += float64(v)
	}
	for _, v := range sum {
		square += v * v
	}
	out := make([]float32, width)
	for i, v := range sum {
		out[i] = float32(v / max(math.Sqrt(square), 1e-12))
	}
	return out
}

// Close waits for texts under way.
func (e *Embedder) Close() error {
	return errors.Join(e.batcher.Close(), e.program.Close())
}
