// Command reorder prints how fast carve changes the layout of tensors in memory, beside a copy of as many bytes and beside
// oneDNN's own reorders, all by turns in one process, on the same memory and the same number of threads. Speed is bytes read
// plus bytes written per second.
//
//	go run ./internal/bench/reorder [-set sizes|shapes|casts|narrow|all] [-threads 1,2] [-rounds 15] [-library PATH] [-match TEXT] [-processor] [-cold]
//
// The copy is Go's, in as many parts as threads, from the reorder's source to its destination, of the mean of their sizes; from 1 MiB
// on it writes past the caches, on amd64, so that lines are not read before they are written.
// The last column is the time that package convert models, for one thread, over carve's.
// Figures are the lower quartiles of the times of the rounds, which other load disturbs less than medians; in each round,
// everything is run for some milliseconds by turns. Where oneDNN is not to be had, or has no such reorder, its columns are
// empty.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
)

// task is a reorder to measure, named like "NCHW→NCHW16c".
type task struct {
	from, to string // tags; a blocked one is aBcd16b
	src, dst tensor.DType
	dims     []int
}

func (t task) String() string {
	names := map[string]string{"abcd": "NCHW", "acdb": "NHWC", "aBcd16b": "NCHW16c", "aBcd8b": "NCHW8c", "ab": "rows", "ba": "columns"}
	s := names[t.from] + "→" + names[t.to]
	switch {
	case t.src != t.dst:
		s += fmt.Sprintf(" %v→%v", t.src, t.dst)
	case t.src != tensor.Float32:
		s += fmt.Sprintf(" %v", t.src)
	}
	return s
}

// kinds are the pairs of layouts for activations.
var kinds = [][2]string{{"abcd", "aBcd16b"}, {"aBcd16b", "abcd"}, {"acdb", "aBcd16b"}, {"aBcd16b", "acdb"}, {"abcd", "acdb"}, {"acdb", "abcd"},
	{"aBcd8b", "aBcd16b"}, {"aBcd16b", "aBcd8b"}, {"abcd", "aBcd8b"}, {"aBcd8b", "abcd"}}

// sizes are shapes of 64 KiB, 256 KiB, 1, 4, 16 and 64 MiB, and matrices of these sizes.
func sizes() (list []task) {
	for _, k := range append([][2]string{{"abcd", "abcd"}}, kinds...) {
		for _, d := range [][]int{{1, 64, 16, 16}, {1, 64, 32, 32}, {1, 64, 64, 64}, {1, 64, 128, 128}, {4, 64, 128, 128}, {16, 64, 128, 128}} {
			list = append(list, task{k[0], k[1], tensor.Float32, tensor.Float32, d})
		}
	}
	for n := 128; n <= 4096; n *= 2 {
		list = append(list, task{"ab", "ba", tensor.Float32, tensor.Float32, []int{n, n}})
	}
	return list
}

// shapes are maps of real models: channels and sizes that are no multiples of 16, and batches.
func shapes() (list []task) {
	for _, k := range kinds {
		for _, d := range [][]int{{1, 3, 224, 224}, {1, 24, 149, 149}, {1, 58, 28, 28}, {1, 100, 14, 14}, {1, 512, 7, 7}, {1, 96, 55, 55}, {1, 256, 56, 56},
			{8, 58, 28, 28}, {8, 256, 14, 14}, {8, 2048, 7, 7}, {8, 64, 56, 56}} {
			list = append(list, task{k[0], k[1], tensor.Float32, tensor.Float32, d})
		}
	}
	for _, d := range [][]int{{128, 768}, {768, 128}, {1000, 1031}, {768, 3072}, {3, 50176}, {50176, 3}} {
		list = append(list, task{"ab", "ba", tensor.Float32, tensor.Float32, d})
	}
	return list
}

// narrow are layouts of elements of one and two bytes.
func narrow() (list []task) {
	for _, small := range []tensor.DType{tensor.Uint8, tensor.Float16} {
		for _, k := range kinds {
			for _, d := range [][]int{{1, 64, 56, 56}, {16, 64, 128, 128}} {
				list = append(list, task{k[0], k[1], small, small, d})
			}
		}
		for _, n := range []int{3, 64} {
			list = append(list, task{"acdb", "abcd", small, small, []int{1, n, 224, 224}}, task{"abcd", "acdb", small, small, []int{1, n, 224, 224}})
		}
	}
	return list
}

// casts change the element type too.
func casts() (list []task) {
	for _, small := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Uint8, tensor.Int8} {
		for _, k := range append([][2]string{{"abcd", "abcd"}}, kinds...) {
			for _, d := range [][]int{{1, 64, 56, 56}, {8, 58, 28, 28}, {16, 64, 128, 128}} {
				list = append(list, task{k[0], k[1], tensor.Float32, small, d}, task{k[0], k[1], small, tensor.Float32, d})
			}
		}
	}
	return list
}

// clockOf returns the clock to measure by: time that passes, or that the processor gave to the calling thread.
func clockOf(processor bool) func() time.Duration {
	start := time.Now()
	return func() time.Duration {
		if t, ok := clock.Thread(); ok && processor {
			return t
		}
		return time.Since(start)
	}
}

func main() {
	set := flag.String("set", "sizes", "sizes, shapes, casts, narrow or all")
	threads := flag.String("threads", "1", "numbers of threads, comma-separated")
	rounds := flag.Int("rounds", 15, "rounds of which lower quartiles are taken")
	path := flag.String("library", "", "oneDNN's library; by default what the system finds")
	match := flag.String("match", "", "measure only rows whose name contains this")
	processor := flag.Bool("processor", false, "measure processor time, with one thread, which other load disturbs less")
	cold := flag.Bool("cold", false, "with nothing but the source in the caches, as within a model: the least processor time of one thread")
	flag.Parse()
	if err := run(*set, *threads, *rounds, *path, *match, clockOf(*processor), *cold); err != nil {
		fmt.Fprintln(os.Stderr, "reorder:", err)
		os.Exit(1)
	}
}

func run(set, threads string, rounds int, path, match string, now func() time.Duration, cold bool) error {
	var list []task
	for _, s := range []struct {
		name string
		make func() []task
	}{{"sizes", sizes}, {"shapes", shapes}, {"casts", casts}, {"narrow", narrow}} {
		if set == s.name || set == "all" {
			list = append(list, s.make()...)
		}
	}
	if list == nil {
		return fmt.Errorf("there is no set %q", set)
	}
	runtime.LockOSThread() // oneDNN's workers belong to this thread
	l, err := openLibrary(path)
	name := "oneDNN"
	if err != nil {
		fmt.Fprintln(os.Stderr, "reorder: without oneDNN:", err)
	} else {
		name += " " + l.version
	}
	for _, text := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("bad number of threads %q", text)
		}
		fmt.Printf("\n%d threads\n\n| reorder | shape | MiB | carve GB/s | copy GB/s | %s GB/s | carve / copy | carve / %s | modelled / measured |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n", n, name, name)
		for _, t := range list {
			row := fmt.Sprintf("%v %v", t, t.dims)
			if !strings.Contains(row, match) {
				continue
			}
			m, err := measure(t, n, rounds, l, now, cold)
			if err != nil {
				return fmt.Errorf("%s: %w", row, err)
			}
			fmt.Println(m.row(t))
		}
	}
	return nil
}
