package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// llvm is where LLVM's tools are.
type llvm struct{ mc, mca, version string }

// Versions that are looked for by name, and the oldest whose tables of these processors are right about what counts here.
const (
	newest = 30
	oldest = 18
)

var versionLine = regexp.MustCompile(`LLVM version (\d+)\.([\d.]+)`)

// findLLVM finds the newest tools on the path, by their names with a version, as Debian has them, or without one.
func findLLVM() (llvm, error) {
	suffixes := []string{}
	for v := newest; v >= oldest; v-- {
		suffixes = append(suffixes, fmt.Sprintf("-%d", v))
	}
	for _, suffix := range append(suffixes, "") {
		mc, err := exec.LookPath("llvm-mc" + suffix)
		if err != nil {
			continue
		}
		mca, err := exec.LookPath("llvm-mca" + suffix)
		if err != nil {
			continue
		}
		out, err := exec.Command(mca, "--version").Output()
		if err != nil {
			return llvm{}, err
		}
		if m := versionLine.FindSubmatch(out); m != nil {
			if major, _ := strconv.Atoi(string(m[1])); major >= oldest {
				return llvm{mc, mca, string(m[1]) + "." + string(m[2])}, nil
			}
		}
	}
	return llvm{}, fmt.Errorf("no llvm-mc and llvm-mca of LLVM %d or newer (Debian's package llvm-19)", oldest)
}

// disassemble returns the instructions of words of arm64.
func (l llvm) disassemble(words []uint32) ([]string, error) {
	var in bytes.Buffer
	for _, w := range words {
		fmt.Fprintf(&in, "0x%02x 0x%02x 0x%02x 0x%02x\n", byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	out, err := output(exec.Command(l.mc, "--disassemble", "--triple=aarch64", "--mattr=+all"), &in)
	if err != nil {
		return nil, err
	}
	var text []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, ".") {
			text = append(text, strings.ReplaceAll(line, "\t", " "))
		}
	}
	if len(text) != len(words) {
		return nil, fmt.Errorf("%d words are %d instructions", len(words), len(text))
	}
	return text, nil
}

// turns is how often a loop is run.
const turns = 1000

// model returns the cycles of a turn of each loop on a processor.
func (l llvm) model(processor string, loops []loop) ([]float64, error) {
	var in bytes.Buffer
	for i, loop := range loops {
		fmt.Fprintf(&in, "# LLVM-MCA-BEGIN %d\n%s\n# LLVM-MCA-END %d\n", i, strings.Join(loop.text, "\n"), i)
	}
	out, err := output(exec.Command(l.mca, "--mtriple=aarch64", "--mcpu="+processor, "--mattr=+dotprod,+i8mm,+bf16,+fullfp16",
		fmt.Sprintf("--iterations=%d", turns), "--json"), &in)
	if err != nil {
		return nil, err
	}
	var report struct {
		CodeRegions []struct {
			Name        string
			SummaryView struct{ TotalCycles float64 }
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, err
	}
	cycles := make([]float64, len(loops))
	for _, r := range report.CodeRegions {
		if i, err := strconv.Atoi(r.Name); err == nil && i < len(cycles) {
			cycles[i] = r.SummaryView.TotalCycles / turns
		}
	}
	return cycles, nil
}

// output runs a command on text.
func output(c *exec.Cmd, in *bytes.Buffer) ([]byte, error) {
	c.Stdin = in
	out, err := c.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w\n%s", c.Path, err, exit.Stderr)
	}
	return out, err
}
