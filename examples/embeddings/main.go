// Command embeddings turns lines of text into vectors, and prints how near each two are: what a search over texts is made of.
//
//	go run . < texts
//	go run . --model model.onnx --vocabulary vocab.txt < texts
//
// in this folder, which is a module of its own; from the root of the repository by go run -C examples/embeddings.
//
// Without --model an encoder with seeded weights stands in for a trained one: it knows nothing of meaning, and texts that
// differ in a word are near each other. With the ONNX export of a sentence encoder of BERT's family and its vocab.txt the vectors mean
// something. Tokens are github.com/sugarme/tokenizer's, in pure Go.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve"
)

func main() {
	model := flag.String("model", "", "ONNX `FILE` of an encoder; unset means one with seeded weights")
	vocabulary := flag.String("vocabulary", "vocab.txt", "`FILE` with one word piece a line")
	most := flag.Int("tokens", longest, "most tokens that the model takes, `N`")
	flag.Parse()
	if err := run(context.Background(), *model, *vocabulary, *most, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "embeddings:", err)
		os.Exit(1)
	}
}

// callers is how many texts are asked for at a time: enough for full batches, and fewer than may wait in a Batcher.
const callers = 64

func run(ctx context.Context, path, vocabulary string, most int, r io.Reader, w io.Writer) error {
	texts, err := lines(r)
	if err != nil {
		return err
	}
	m, err := open(ctx, path, vocabulary)
	if err != nil {
		return err
	}
	defer m.Close()
	e, err := NewEmbedder(ctx, m, vocabulary, most)
	if err != nil {
		return err
	}
	defer e.Close()
	vectors, errs := make([][]float32, len(texts)), make([]error, len(texts))
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(callers, len(texts)) { // at one time, as a server's are
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(texts); i = int(next.Add(1)) - 1 {
				vectors[i], errs[i] = e.Embed(ctx, texts[i])
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("%q: %w", texts[i], err)
		}
	}
	for i := range texts {
		for j := range i {
			fmt.Fprintf(w, "%.3f  %s | %s\n", dot(vectors[i], vectors[j]), texts[j], texts[i])
		}
	}
	return nil
}

// open opens a model, or makes the one that stands in.
func open(ctx context.Context, path, vocabulary string) (*carve.Model, error) {
	if path != "" {
		return carve.Open(ctx, path)
	}
	data, err := os.ReadFile(vocabulary)
	if err != nil {
		return nil, err
	}
	return carve.FromGraph(encoder(len(strings.Fields(string(data))))), nil
}

// maxLine bounds a text, in bytes. Of long ones the first tokens count alone.
const maxLine = 16 << 20

func lines(r io.Reader) (list []string, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	n := 0
	for ; s.Scan(); n++ {
		if text := strings.TrimSpace(s.Text()); text != "" {
			list = append(list, text)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return list, nil
}

func dot(a, b []float32) (sum float32) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
