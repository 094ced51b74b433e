// Command mca shows how many cycles the inner loops of the kernels for arm64 take on processors that are not here, as they are modelled.
//
//	go run ./internal/bench/mca [-match REGEXP] [-processors neoverse-n1,neoverse-v2,apple-m1] [-check]
//
// It assembles every *_arm64.s of the kernel packages, takes of each kernel the innermost loop with the most multiply-adds, has llvm-mc
// say its words in instructions and llvm-mca of LLVM 18 or newer run it a thousand times from the first-level cache, and prints cycles of
// a turn beside two numbers that come from the tables which the vendors publish (ports.go): the limit, which is what the multiply-adds
// alone keep their pipes busy, and the ports' time, which is the longest of what any kind of port, the width of dispatch and sums that
// wait for themselves take. A first table says how many multiply-adds a cycle LLVM allows: where that is not what the vendor publishes,
// its cycles do not count and the ports' time stands alone.
//
// The last column is the limit in percent of the cycles. With -check the command fails where it is below 85 for a kernel of products or
// dense convolutions that a planner gives most of its work. Nothing here is measured on hardware.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
)

// least is the share of the limit that the main kernels reach, in percent.
const least = 85

// main tiles: those that whole tiles of large products and convolutions run on.
var mainKernels = regexp.MustCompile(`^(gemm\.((tile|pairs|float16)NEON_6x16|doubleNEON_6x8)|conv\.(dense|pairs|float16)NEON|quant\.tile\w+_6x16)$`)

func main() {
	match := flag.String("match", `^(gemm|conv\.(dense|pairs|float16)|quant\.tile|nibble|octet|pairwise)`, "kernels to show, by package and name")
	processors := flag.String("processors", "neoverse-n1,neoverse-v2,apple-m1", "processors, comma-separated")
	check := flag.Bool("check", false, fmt.Sprintf("fail where a main kernel is below %d %% of its limit", least))
	dir := flag.String("kernels", "internal/kernel", "folder of the kernel packages")
	flag.Parse()
	if err := run(*dir, *match, strings.Split(*processors, ","), *check); err != nil {
		fmt.Fprintln(os.Stderr, "mca:", err)
		os.Exit(1)
	}
}

func run(dir, match string, processors []string, check bool) error {
	pattern, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	tools, err := findLLVM()
	if err != nil {
		return err
	}
	loops, err := kernelLoops(dir, pattern, tools)
	if err != nil {
		return err
	}
	var low []string
	for _, name := range processors {
		p, ok := published[name]
		if !ok {
			return fmt.Errorf("no published ports of %q are known here", name)
		}
		list, err := p.table(name, tools, loops)
		if err != nil {
			return err
		}
		low = append(low, list...)
	}
	if check && len(low) > 0 {
		return fmt.Errorf("below %d %% of the limit: %s", least, strings.Join(low, ", "))
	}
	return nil
}

// table prints the tables of a processor, and returns what is below its share.
func (p *processor) table(name string, tools llvm, loops []loop) (low []string, err error) {
	rates, err := p.probe(name, tools)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%s, %s\n", name, p.source)
	fmt.Printf("multiply-adds a cycle, published and by LLVM %s:", tools.version)
	for _, op := range probes {
		if p.rates[op.mnemonic] > 0 {
			fmt.Printf("  %s %g %.2g", op.mnemonic, p.rates[op.mnemonic], rates[op.mnemonic])
		}
	}
	fmt.Println()
	cycles, err := tools.model(name, loops)
	if err != nil {
		return nil, err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kernel\tinstructions\tmultiply-adds\tlimit\tports\tLLVM\tof the limit\t")
	for i, l := range loops {
		if p.rates[l.multiply] == 0 {
			continue // the processor lacks the instruction
		}
		limit, ports := p.limit(l), p.time(l)
		modelled := fmt.Sprintf("%.1f", cycles[i])
		if longest := max(ports, cycles[i]); agree(p.rates[l.multiply], rates[l.multiply]) {
			ports, modelled = longest, modelled+" "
		} else {
			modelled = "(" + modelled + ")"
		}
		share := 100 * limit / ports
		fmt.Fprintf(w, "%s\t%d\t%d %s\t%.1f\t%.1f\t%s\t%.0f %%\t\n", l.name, len(l.text), l.multiplies, l.multiply, limit, p.time(l), modelled, share)
		if mainKernels.MatchString(l.name) && share < least {
			low = append(low, fmt.Sprintf("%s on %s (%.0f %%)", l.name, name, share))
		}
	}
	fmt.Fprintln(w)
	return low, w.Flush()
}

// agree reports whether two rates are one.
func agree(published, modelled float64) bool {
	return modelled > 0.95*published && modelled < 1.05*published
}
