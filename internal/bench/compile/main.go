// Command compile measures how long models take from file to Program: each is opened and compiled many times in one process, and the
// least times count, beside the processors' time of one compilation and its end, on average. With other builds of this command, of other commits, fresh
// processes of all of them take turns. It prints a Markdown table, ratios to the first of the others, and their geometric means.
//
//	go run ./internal/bench/compile [-count 25] [-threads 1] [-rounds 3] [-beside PROGRAM,…] [-cpuprofile FILE] [-memprofile FILE] [MODEL …]
//
// A MODEL is a file, or the name of a model of the zoo; all of the zoo by default. Of large models fewer are compiled: a process
// stops after -seconds. The largest resident memory is that of a process that compiles once.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/internal/bench/clock"
	"github.com/carve-dev/carve/internal/zootest"
)

// sample is what a process measured.
type sample struct {
	WallMS  float64 `json:"wall_ms"` // least of a compilation
	CPUMS   float64 `json:"cpu_ms"`  // of all processors, on average: the clock's ticks may be longer than one compilation
	Allocs  float64 `json:"allocs"`  // of Go's heap, in a compilation
	AllocMB float64 `json:"alloc_mb"`
	PeakMB  float64 `json:"peak_mb"` // of a process that compiles once
}

type bench struct {
	count, threads, rounds int
	seconds                float64
	backend                string
	profile, allocations   string
}

func main() {
	var b bench
	flag.IntVar(&b.count, "count", 25, "most compilations in a process")
	flag.IntVar(&b.threads, "threads", 1, "threads")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds of processes")
	flag.Float64Var(&b.seconds, "seconds", 2, "a process begins no compilation later")
	flag.StringVar(&b.backend, "backend", "cpu", "backends, comma-separated")
	flag.StringVar(&b.profile, "cpuprofile", "", "file for a profile of the processor, of the one model that is named, in this process")
	flag.StringVar(&b.allocations, "memprofile", "", "the same of allocations")
	beside := flag.String("beside", "", "builds of this command, comma-separated")
	worker := flag.Bool("worker", false, "internal: measure one model")
	flag.Parse()
	var err error
	if b.allocations != "" {
		runtime.MemProfileRate = 512
	}
	if *worker || b.profile+b.allocations != "" {
		err = b.work(flag.Arg(0))
	} else {
		err = b.compare(flag.Args(), *beside)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}

// compare measures every model with every program, and prints the table.
func (b *bench) compare(models []string, beside string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	programs := []string{self}
	if beside != "" {
		programs = append(programs, strings.Split(beside, ",")...)
	}
	if len(models) == 0 {
		if models, err = zootest.Names(); err != nil {
			return err
		}
	}
	fmt.Println("| model | program | ms | ratio | processor ms | ratio | allocations | MB allocated | peak MB |")
	fmt.Println("|---|---|--:|--:|--:|--:|--:|--:|--:|")
	wall, cpu := make([]float64, len(programs)), make([]float64, len(programs))
	for _, m := range models {
		path, err := locate(m)
		if err != nil {
			return err
		}
		best, err := b.turns(programs, path)
		if err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
		base := best[min(1, len(best)-1)]
		for i, s := range best {
			wall[i] += math.Log(s.WallMS/base.WallMS) / float64(len(models))
			cpu[i] += math.Log(s.CPUMS/base.CPUMS) / float64(len(models))
			fmt.Printf("| %s | %s | %.2f | %.2f | %.2f | %.2f | %.0f | %.2f | %.0f |\n", strings.TrimSuffix(filepath.Base(path), ".onnx"), name(programs, i),
				s.WallMS, s.WallMS/base.WallMS, s.CPUMS, s.CPUMS/base.CPUMS, s.Allocs, s.AllocMB, s.PeakMB)
		}
	}
	for i := range programs {
		fmt.Printf("\n%s: geometric mean of the ratios %.3f, of the processor's time %.3f\n", name(programs, i), math.Exp(wall[i]), math.Exp(cpu[i]))
	}
	return nil
}

func name(programs []string, i int) string {
	if i == 0 {
		return "this"
	}
	return filepath.Base(programs[i])
}

// locate returns the file of a model.
func locate(model string) (string, error) {
	if _, err := os.Stat(model); err == nil {
		return model, nil
	}
	return zootest.Materialize(model)
}

// turns runs processes of the programs by turns, and returns the least that each measured.
func (b *bench) turns(programs []string, path string) ([]sample, error) {
	best := make([]sample, len(programs))
	for round := range b.rounds {
		for i, p := range programs {
			many, err := b.run(p, path, b.count)
			if err != nil {
				return nil, err
			}
			one, err := b.run(p, path, 1)
			if err != nil {
				return nil, err
			}
			if many.PeakMB = one.PeakMB; round == 0 {
				best[i] = many
			}
			s := &best[i]
			s.WallMS, s.CPUMS = min(s.WallMS, many.WallMS), min(s.CPUMS, many.CPUMS)
			s.Allocs, s.AllocMB, s.PeakMB = min(s.Allocs, many.Allocs), min(s.AllocMB, many.AllocMB), min(s.PeakMB, many.PeakMB)
		}
	}
	return best, nil
}

// run starts a process that compiles a model, and reads its sample.
func (b *bench) run(program, path string, count int) (s sample, err error) {
	cmd := exec.Command(program, "-worker", "-count", strconv.Itoa(count), "-threads", strconv.Itoa(b.threads), "-seconds", fmt.Sprint(b.seconds),
		"-backend", b.backend, path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("%s: %w", program, err)
	}
	return s, json.Unmarshal(out, &s)
}

// work opens and compiles a model several times, and writes the least times.
func (b *bench) work(model string) error {
	path, err := locate(model)
	if err != nil {
		return err
	}
	if b.profile != "" {
		f, err := os.Create(b.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	s := sample{WallMS: math.Inf(1)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, cpu, done := time.Now(), clock.Process(), 0
	for done < b.count && (done == 0 || time.Since(begin).Seconds() < b.seconds) {
		start := time.Now()
		end, err := b.compile(path)
		if err != nil {
			return err
		}
		s.WallMS = min(s.WallMS, ms(time.Since(start)))
		if err := end(); err != nil {
			return err
		}
		done++
	}
	s.CPUMS = ms(clock.Process()-cpu) / float64(done)
	runtime.ReadMemStats(&after)
	s.Allocs = float64(after.Mallocs-before.Mallocs) / float64(done)
	s.AllocMB = float64(after.TotalAlloc-before.TotalAlloc) / float64(done) / (1 << 20)
	s.PeakMB = clock.PeakMiB()
	if b.allocations != "" {
		f, err := os.Create(b.allocations)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// compile opens and compiles a model once. What it returns closes both.
func (b *bench) compile(path string) (end func() error, err error) {
	ctx := context.Background()
	m, err := carve.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	o := &carve.Options{Threads: b.threads}
	for _, n := range strings.Split(b.backend, ",") {
		o.Backends = append(o.Backends, backend.Config{Name: n})
	}
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := p.Close(); err != nil {
			return err
		}
		return m.Close()
	}, nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
