package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/carve-dev/carve/internal/bench/paired"
)

// table is what a subject's ways have shown.
type table struct {
	x       *subject
	ways    []*way
	sent    int
	callers int
	whole   bool // all ways are there
}

// verdict is a number beside its limit.
type verdict struct {
	what   string
	number float64
	unit   string
	most   float64 // or the least, where it is negative
	echo   float64 // what the same client measures with an echo of the same library's; 0 where that is not compared
}

// String says whether the limit is met.
func (v verdict) String() string {
	word, limit, met := "at most", v.most, v.number <= v.most
	if v.most < 0 {
		word, limit, met = "at least", -v.most, v.number >= -v.most
	}
	answer := "met"
	if !met {
		answer = "NOT met"
	}
	if v.echo > 0 {
		answer += fmt.Sprintf("; an echo %.1f, the server's own %.1f", v.echo, v.number-v.echo)
	}
	return fmt.Sprintf("%-62s %8.1f %-2s %s %g: %s", v.what, v.number, v.unit, word, limit, answer)
}

func (t *table) way(name string) *way {
	for _, w := range t.ways {
		if w.name == name {
			return w
		}
	}
	return nil
}

// print prints all numbers, and those that have limits beside these.
func (t *table) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d bytes a request\n\n%-20s %18s   %9s %2d %-35s   %s\n", t.x.name, t.sent, "times in µs", "1 caller", "", t.callers, "callers", "80 % of that")
	fmt.Fprintf(out, "%-20s %8s %9s   %8s %9s %9s %8s %10s   %8s %9s %6s\n", "", "p50", "p99", "p50", "p99", "req/s", "of bare", "processor", "p50", "p99", "kept")
	bare := t.ways[0]
	for _, w := range t.ways {
		fmt.Fprintf(out, "%-20s %8.1f %9.1f   %8.1f %9.1f %9.0f %7.0f%% %10.1f   %8.1f %9.1f %5.0f%%\n", w.name, micros(at(w.alone, 50)), micros(at(w.alone, 99)),
			micros(at(w.many, 50)), micros(at(w.many, 99)), median(w.rate), 100*paired.Of(w.rate, bare.rate).Median, median(w.processor),
			micros(at(w.steady, 50)), micros(at(w.steady, 99)), 100*median(w.kept))
	}
	fmt.Fprintln(out)
	if t.whole {
		for _, v := range t.x.judges(t) {
			fmt.Fprintln(out, v)
		}
		fmt.Fprintln(out)
	}
}

// median returns the median of a list that it leaves as it is, 0 of none.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return paired.Median(slices.Clone(list))
}

// served are the ways to ask the server.
var served = []string{plainBinary, clientBinary, gRPC, sharedGRPC}

// added returns how much longer a request takes than a run, in microseconds: the median over the rounds.
func (t *table) added(w *way) float64 {
	more := make([]float64, len(w.p50))
	for i := range more {
		more[i] = w.p50[i] - t.ways[0].p50[i]
	}
	return paired.Median(more)
}

// tail returns how many times the median the 99th percentile at 80 % is.
func (w *way) tail() float64 { return float64(at(w.steady, 99)) / float64(max(1, at(w.steady, 50))) }

// echo returns a number of the echo that a way is compared with, 0 where there is none.
func (t *table) echo(name string, number func(*way) float64) float64 {
	if e := t.way(echoes[name]); e != nil {
		return number(e)
	}
	return 0
}

// median returns the median of a way's rounds of one caller, in microseconds.
func (w *way) median() float64 { return median(w.p50) }

// tail is the judgement of latencies at 80 %. Where a bare echo misses the limit on a machine, so will the server: its own share is what it
// has more than the echo of the same library.
func (t *table) tail() (list []verdict) {
	for _, name := range append([]string{loopback, bareGRPC}, served...) {
		list = append(list, verdict{what: name + ": p99 at 80 %, of p50", number: t.way(name).tail(), unit: "×", most: 3, echo: t.echo(name, (*way).tail)})
	}
	for _, name := range served {
		list = append(list, verdict{what: name + ": the same, of that of " + echoes[name], number: 100 * t.way(name).tail() / max(1, t.echo(name, (*way).tail)), unit: "%", most: 100})
	}
	return list
}

// small judges inputs below 4 kB.
func (t *table) small() (list []verdict) {
	for _, name := range served {
		list = append(list, verdict{what: name + ": added to a run at p50", number: t.added(t.way(name)), unit: "µs", most: 80, echo: t.echo(name, (*way).median)})
	}
	return append(list, t.tail()...)
}

// rate judges how many requests a second a way answers, in percent of another's.
func (t *table) rate(name, of string, most float64) verdict {
	return verdict{what: name + ": requests a second, of " + of, number: 100 * paired.Of(t.way(name).rate, t.way(of).rate).Median, unit: "%", most: most}
}

// batched judges runs of several requests.
func (t *table) batched() []verdict {
	list := []verdict{t.rate(queued, bareLoop, -90)}
	for _, name := range []string{gRPC, sharedGRPC} {
		list = append(list, t.rate(name, bareGRPC, -70))
	}
	list = append(list, t.rate(sharedGRPC, sharedEcho, -70))
	return append(list, t.tail()...)
}

// large judges inputs of hundreds of kilobytes.
func (t *table) large() (list []verdict) {
	trip := min(t.way(loopback).median(), t.way(plainEcho).median()) // which is quicker depends on how reads fall between writes
	for _, name := range served {
		w := t.way(name)
		echo := t.echo(name, (*way).median) / trip
		list = append(list, verdict{what: name + ": added to a run at p50, of a round trip", number: t.added(w) / trip, unit: "×", most: 3, echo: echo})
		if t.x.file != "" { // else there is no work to compare with
			list = append(list, t.rate(name, bareLoop, -90))
		}
	}
	return append(list, t.tail()...)
}
