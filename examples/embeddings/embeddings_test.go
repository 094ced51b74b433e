package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/carve-dev/carve"
)

func embedder(t *testing.T) *Embedder {
	t.Helper()
	m, err := open(t.Context(), "", "vocab.txt")
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEmbedder(t.Context(), m, "vocab.txt", longest)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		m.Close()
	})
	return e
}

// texts returns texts of all lengths, some too long.
func texts() (list []string) {
	words := strings.Fields("the small red cat sits on a slow boat and reads one old book unfallen naïve ÉTÉ 42 ships! how?")
	for i := range 60 {
		var s []string
		for k := range 1 + i*i%97 {
			s = append(s, words[(i+k*7)%len(words)])
		}
		list = append(list, strings.Join(s, " "))
	}
	return append(list, "", " ", "日本", strings.Repeat("cat ", 3000))
}

// TestTogether has many callers embed texts of unlike lengths, and compares each vector with that of the text alone.
func TestTogether(t *testing.T) {
	e := embedder(t)
	list := texts()
	want := make([][]float32, len(list))
	for i, s := range list {
		var err error
		if want[i], err = e.Embed(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		norm := 0.0
		for _, v := range want[i] {
			norm += float64(v) * float64(v)
		}
		if len(want[i]) != hidden || math.Abs(norm-1) > 1e-5 {
			t.Fatalf("%q: %d numbers of length %g", s, len(want[i]), norm)
		}
	}
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			for k := range list {
				i := (k*5 + caller*3) % len(list)
				got, err := e.Embed(context.Background(), list[i])
				if err != nil {
					t.Error(err)
					return
				}
				for j, w := range want[i] {
					if math.Abs(float64(got[j]-w)) > 1e-5 {
						t.Errorf("%q: element %d is %g in place of %g", list[i], j, got[j], w)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	n := e.batcher.Stats()
	t.Logf("%d texts in %d runs", n.Calls, n.Runs)
	if n.Reasons[carve.BatchAlone] > 0 {
		t.Errorf("%d texts were not batched", n.Reasons[carve.BatchAlone])
	}
}

// TestNear compares texts that differ in a word with others.
func TestNear(t *testing.T) {
	var out bytes.Buffer
	in := strings.NewReader("the old boat sails on the river\n\nthe old boat sails on a river\nwhy?\n")
	if err := run(t.Context(), "", "vocab.txt", longest, in, &out); err != nil {
		t.Fatal(err)
	}
	var near []float64
	for line := range strings.Lines(out.String()) {
		var v float64
		if _, err := fmt.Sscan(line, &v); err != nil {
			t.Fatal(err)
		}
		near = append(near, v)
	}
	if len(near) != 3 || near[0] <= near[1] || near[0] <= near[2] {
		t.Errorf("nearness %v of\n%s", near, out.String())
	}
}

func TestFaults(t *testing.T) {
	var out bytes.Buffer
	for _, args := range [][2]string{{"", "absent.txt"}, {"absent.onnx", "vocab.txt"}, {"", "main.go"}} {
		if err := run(t.Context(), args[0], args[1], longest, strings.NewReader("cat\n"), &out); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// TestMany runs the command on more texts than may wait in a Batcher, one of them longer than lines usually are.
func TestMany(t *testing.T) {
	var in, out bytes.Buffer
	for i := range 1100 {
		fmt.Fprintln(&in, "text", i)
	}
	fmt.Fprintln(&in, strings.Repeat("cat ", 30_000))
	if err := run(t.Context(), "", "vocab.txt", longest, &in, &out); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1101*1100/2 {
		t.Errorf("%d pairs", n)
	}
}
