package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// loop is the inner loop of a kernel.
type loop struct {
	name       string   // package and kernel
	length     int      // in words
	text       []string // instructions as LLVM writes them, the jump last
	multiply   string   // the multiply-add that it has most of
	multiplies int
}

// kernelLoops returns of each kernel of the packages in a folder whose name matches the innermost loop with the most multiply-adds.
func kernelLoops(dir string, match *regexp.Regexp, tools llvm) ([]loop, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "*_arm64.s"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no assembly of arm64 in %s", dir)
	}
	var all []loop
	var words []uint32
	for _, file := range files {
		kernels, err := assemble(file)
		if err != nil {
			return nil, err
		}
		for _, k := range kernels {
			if !match.MatchString(k.name) {
				continue
			}
			for _, piece := range k.pieces {
				for _, span := range innermost(piece) {
					all = append(all, loop{name: k.name, length: span[1] + 1 - span[0]})
					words = append(words, piece[span[0]:span[1]+1]...)
				}
			}
		}
	}
	text, err := tools.disassemble(words)
	if err != nil {
		return nil, err
	}
	var best []loop
	for _, l := range all {
		l.text, text = text[:l.length], text[l.length:]
		l.count()
		switch last := len(best) - 1; {
		case l.multiplies == 0:
		case last < 0 || best[last].name != l.name:
			best = append(best, l)
		case l.multiplies > best[last].multiplies:
			best[last] = l
		}
	}
	return best, nil
}

// count counts the multiply-adds.
func (l *loop) count() {
	counts := map[string]int{}
	for _, t := range l.text {
		if m := mnemonic(t); isMultiply(m) {
			counts[base(m)]++
			l.multiplies++
		}
	}
	for m, n := range counts {
		if n > counts[l.multiply] || n == counts[l.multiply] && m < l.multiply {
			l.multiply = m
		}
	}
}

// kernel is the code of a kernel: of a function, or of the pieces of one that jump to each other.
type kernel struct {
	name   string
	pieces [][]uint32
}

var (
	symbol = regexp.MustCompile(`^TEXT (\S+?)(?:<[^>]*>)?\(SB\)`)
	code   = regexp.MustCompile(`^ +\S+:\d+\t+0x[0-9a-f]+\t+([0-9a-f]{8})\t`)
	piece  = regexp.MustCompile(`_(b\d+|tile|end|fin)$`)
)

// assemble returns the kernels of a file.
func assemble(file string) ([]kernel, error) {
	scratch, err := os.MkdirTemp("", "carve-mca")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	object := filepath.Join(scratch, "kernel.o")
	build := exec.Command("go", "tool", "asm", "-p", filepath.Base(filepath.Dir(file)), "-o", object,
		"-I", filepath.Join(strings.TrimSpace(string(root)), "pkg", "include"), file)
	build.Env = append(os.Environ(), "GOARCH=arm64")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", file, err, out)
	}
	listing, err := output(exec.Command("go", "tool", "objdump", object), &bytes.Buffer{})
	if err != nil {
		return nil, err
	}
	return parse(filepath.Base(filepath.Dir(file)), string(listing))
}

// parse reads a listing of go tool objdump of a package.
func parse(pkg, listing string) (kernels []kernel, err error) {
	for line := range strings.Lines(listing) {
		if m := symbol.FindStringSubmatch(line); m != nil {
			name := pkg + "." + piece.ReplaceAllString(strings.TrimPrefix(m[1], pkg+"."), "")
			if len(kernels) == 0 || kernels[len(kernels)-1].name != name {
				kernels = append(kernels, kernel{name: name})
			}
			k := &kernels[len(kernels)-1]
			k.pieces = append(k.pieces, nil)
		} else if m := code.FindStringSubmatch(line); m != nil && len(kernels) > 0 {
			word, err := strconv.ParseUint(m[1], 16, 32)
			if err != nil {
				return nil, err
			}
			k := &kernels[len(kernels)-1]
			last := len(k.pieces) - 1
			k.pieces[last] = append(k.pieces[last], uint32(word))
		}
	}
	return kernels, nil
}

// innermost returns the first and last words of the loops that have none within: those of jumps back that no other lies between.
func innermost(words []uint32) (spans [][2]int) {
	for at, w := range words {
		if offset, ok := jump(w); ok && offset < 0 && at+offset >= 0 {
			first := at + offset
			if !slices.ContainsFunc(spans, func(s [2]int) bool { return s[0] >= first }) {
				spans = append(spans, [2]int{first, at})
			}
		}
	}
	return spans
}

// jump returns how far a conditional jump jumps, in words.
func jump(w uint32) (offset int, ok bool) {
	switch {
	case w>>24 == 0x54, w>>25&0x3f == 0x1a: // b.cond, cbz and cbnz
		return int(int32(w<<8) >> 13), true
	}
	return 0, false
}

// mnemonic returns the name of an instruction.
func mnemonic(text string) string {
	name, _, _ := strings.Cut(text, " ")
	return name
}
