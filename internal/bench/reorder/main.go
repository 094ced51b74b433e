// Command reorder prints how fast carve changes the layout of tensors in memory, beside a copy of as many bytes and beside
// oneDNN's own reorders, all by turns in one process, on the same memory and the same number of threads. Speed is bytes read
// plus bytes written per second.
//
//	go run ./internal/bench/reorder [-set sizes|large|shapes|casts|largecasts|narrow|all] [-threads 1,2] [-rounds 15] [-library PATH] [-match TEXT] [-isa avx2] [-processor] [-cold]
//
// The copy is Go's, in as many parts as threads, from the reorder's source to its destination, of the mean of their sizes; from 1 MiB
// on it writes past the caches, on amd64, so that lines are not read before they are written.
// Speeds are the lower quartiles of the rounds, which other load disturbs less than medians. The ratios are medians of the ratios of times in
// each round, in which everything is run for some milliseconds by turns, with their intervals of 95 %: of a copy's or oneDNN's time to carve's,
// so that carve is ahead above 1. Where oneDNN is not to be had, or has no such reorder, its columns are empty.
// The last column is the time that package convert models, for one thread, over carve's.
// With -isa carve has the kernels of that set; oneDNN is held to one by its variable ONEDNN_MAX_CPU_ISA.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/bench/clock"
	"github.com/carve-dev/carve/internal/kernel/isa"
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

// large are shapes of 128 and 256 MiB, which are four times the last-level cache of most processors and more; some have channels or planes that
// are no multiples of a cache line.
func large() (list []task) {
	for _, d := range [][]int{{32, 64, 128, 128}, {64, 64, 128, 128}} {
		list = append(list, each(slices.Concat([][2]string{{"abcd", "abcd"}}, kinds), tensor.Float32, tensor.Float32, d)...)
	}
	for _, d := range [][]int{{220, 3, 224, 224}, {126, 17, 125, 125}, {105, 100, 56, 56}, {340, 2048, 7, 7}, {1, 4096, 64, 128}} {
		list = append(list, each(kinds, tensor.Float32, tensor.Float32, d)...)
	}
	return list
}

// largeCasts are of 64 to 256 MiB, from and to other types and of them.
func largeCasts() (list []task) {
	d, pairs := []int{64, 64, 128, 128}, slices.Concat([][2]string{{"abcd", "abcd"}}, kinds)
	for _, small := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Uint8, tensor.Int8} {
		list = slices.Concat(list, each(pairs, tensor.Float32, small, d), each(pairs, small, tensor.Float32, d))
		if small == tensor.Float16 || small == tensor.Uint8 {
			list = append(list, each(pairs, small, small, d)...)
		}
	}
	return list
}

func each(pairs [][2]string, src, dst tensor.DType, dims []int) (list []task) {
	for _, k := range pairs {
		list = append(list, task{k[0], k[1], src, dst, dims})
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
	set := flag.String("set", "sizes", "sizes, large, shapes, casts, largecasts, narrow or all")
	threads := flag.String("threads", "1", "numbers of threads, comma-separated")
	rounds := flag.Int("rounds", 15, "rounds by turns")
	path := flag.String("library", "", "oneDNN's library; by default what the system finds")
	match := flag.String("match", "", "measure only rows whose name contains this")
	name := flag.String("isa", "", "carve's instruction set; by default the best that the processor has")
	processor := flag.Bool("processor", false, "measure processor time, with one thread, which other load disturbs less")
	cold := flag.Bool("cold", false, "with nothing but the source in the caches, as within a model")
	flag.Parse()
	m := meter{rounds: *rounds, now: clockOf(*processor), cold: *cold, target: isa.Host()}
	var err error
	if *name != "" {
		m.target, err = isa.Named(*name)
	}
	if err == nil {
		err = run(*set, *threads, *path, *match, &m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reorder:", err)
		os.Exit(1)
	}
}

func run(set, threads, path, match string, m *meter) error {
	var list []task
	for _, s := range []struct {
		name string
		make func() []task
	}{{"sizes", sizes}, {"large", large}, {"shapes", shapes}, {"casts", casts}, {"largecasts", largeCasts}, {"narrow", narrow}} {
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
		m.library = l
	}
	for _, text := range strings.Split(threads, ",") {
		if m.threads, err = strconv.Atoi(text); err != nil || m.threads < 1 {
			return fmt.Errorf("bad number of threads %q", text)
		}
		fmt.Printf("\n%d threads, %v\n\n| reorder | shape | MiB | carve GB/s | copy GB/s | %s GB/s | of a copy | of %s | modelled / measured |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n",
			m.threads, m.target, name, name)
		for _, t := range list {
			row := fmt.Sprintf("%v %v", t, t.dims)
			if !strings.Contains(row, match) {
				continue
			}
			r, err := m.measure(t)
			if err != nil {
				return fmt.Errorf("%s: %w", row, err)
			}
			fmt.Println(r.row(t))
		}
	}
	return nil
}
