package main

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// processor is what a vendor publishes of a core, as far as the loops here need it: rates are instructions a cycle.
type processor struct {
	source   string
	width    float64 // instructions that are dispatched
	vector   float64 // pipes of vectors
	loads    float64 // loads of a vector
	integer  float64 // integer pipes
	branches float64
	paired   bool // a load of two vectors counts as two
	// rates are the multiply-adds that may begin in a cycle by their names; one that is not here there is not. waits is how many
	// cycles after one the next to the same sum may begin.
	rates, waits map[string]float64
}

// published are the processors. The sources' numbers were typed in by hand.
var published = map[string]*processor{
	"neoverse-n1": {
		source: "Arm Neoverse N1 Software Optimization Guide",
		width:  4, vector: 2, loads: 2, integer: 3, branches: 1, paired: true,
		rates: map[string]float64{"fmla": 2, "sdot": 2, "udot": 2, "smlal": 1},
		waits: map[string]float64{"fmla": 2, "sdot": 1, "udot": 1, "smlal": 1},
	},
	"neoverse-v2": {
		source: "Arm Neoverse V2 Core Software Optimization Guide",
		width:  8, vector: 4, loads: 3, integer: 6, branches: 2, paired: true,
		rates: map[string]float64{"fmla": 4, "sdot": 4, "udot": 4, "usdot": 4, "sudot": 4, "usmmla": 4, "bfdot": 4, "smlal": 2},
		waits: map[string]float64{"fmla": 2, "sdot": 1, "udot": 1, "usdot": 1, "sudot": 1, "usmmla": 1, "bfdot": 2, "smlal": 1},
	},
	"apple-m1": { // performance cores
		source: "Apple Silicon CPU Optimization Guide",
		width:  8, vector: 4, loads: 3, integer: 6, branches: 2, paired: true,
		rates: map[string]float64{"fmla": 4, "sdot": 4, "udot": 4, "smlal": 4},
		waits: map[string]float64{"fmla": 4, "sdot": 3, "udot": 3, "smlal": 3},
	},
}

// limit is how many cycles the multiply-adds of a turn keep their pipes busy.
func (p *processor) limit(l loop) (cycles float64) {
	for _, t := range l.text {
		if m := base(mnemonic(t)); isMultiply(m) {
			cycles += 1 / p.rates[m]
		}
	}
	return cycles
}

// time is the least number of cycles that a turn takes on published ports.
func (p *processor) time(l loop) float64 {
	var vector, loads, integer, branches float64
	sums, begun := map[string]float64{}, map[string]bool{} // what the multiply-adds of a register wait; those that begin anew in each turn
	for _, t := range l.text {
		switch m := mnemonic(t); {
		case isMultiply(m):
			vector += p.vector / p.rates[base(m)]
			sums[operand.FindString(t)] += p.waits[base(m)]
		case strings.HasPrefix(m, "ld"):
			loads++
			if p.paired && m == "ldp" {
				loads++
			}
			if strings.Contains(t, "], ") || strings.HasSuffix(t, "!") { // which moves its address on
				integer++
			}
		case strings.HasPrefix(m, "b."), m == "cbz", m == "cbnz":
			branches++
		case onVectors.MatchString(t):
			vector++
		default:
			integer++
		}
		if !isMultiply(mnemonic(t)) {
			begun[operand.FindString(strings.ReplaceAll(t, " q", " v"))] = true
		}
	}
	longest := 0.0
	for register, wait := range sums {
		if !begun[register] {
			longest = max(longest, wait)
		}
	}
	for _, c := range []float64{vector / p.vector, loads / p.loads, integer / p.integer, branches / p.branches, float64(len(l.text)) / p.width} {
		longest = max(longest, c)
	}
	return longest
}

var (
	operand   = regexp.MustCompile(`v\d+`)
	onVectors = regexp.MustCompile(`\b[vqds]\d+\b`)
)

// base returns the name of a multiply-add of the lower halves for that of the upper ones.
func base(m string) string { return strings.TrimSuffix(m, "2") }

func isMultiply(m string) bool {
	for _, p := range probes {
		if p.mnemonic == base(m) {
			return true
		}
	}
	return false
}

// probes are the multiply-adds, with operands as kernels have them.
var probes = []struct{ mnemonic, to, sources string }{
	{"fmla", "4s", "v30.4s, v31.s[0]"}, {"sdot", "4s", "v30.16b, v31.4b[0]"}, {"udot", "4s", "v30.16b, v31.4b[0]"},
	{"usdot", "4s", "v30.16b, v31.4b[0]"}, {"sudot", "4s", "v30.16b, v31.4b[0]"}, {"usmmla", "4s", "v30.16b, v31.16b"},
	{"bfdot", "4s", "v30.8h, v31.2h[0]"}, {"smlal", "4s", "v30.4h, v31.4h"},
}

// probe returns how many multiply-adds of each kind LLVM's tables allow in a cycle: by a loop of nothing else, of sums enough.
func (p *processor) probe(name string, tools llvm) (map[string]float64, error) {
	const sums = 24
	var loops []loop
	for _, op := range probes {
		l := loop{name: op.mnemonic}
		for i := range sums {
			l.text = append(l.text, fmt.Sprintf("%s v%d.%s, %s", op.mnemonic, i, op.to, op.sources))
		}
		loops = append(loops, l)
	}
	cycles, err := tools.model(name, loops)
	if err != nil {
		return nil, err
	}
	rates := map[string]float64{}
	for i, op := range probes {
		rates[op.mnemonic] = math.Round(100*sums/cycles[i]) / 100
	}
	return rates, nil
}
