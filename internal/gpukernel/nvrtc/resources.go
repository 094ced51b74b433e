package nvrtc

import (
	"regexp"
	"strconv"
)

// Resources is what a kernel takes of a processor.
type Resources struct {
	Kernel                  string
	Registers               int // of an item
	SpillStores, SpillLoads int // bytes of an item
	Stack                   int // bytes of an item
	Shared                  int // static bytes of a group
}

var (
	entryLine = regexp.MustCompile(`Compiling entry function '(\w+)' for`)
	spillLine = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedLine  = regexp.MustCompile(`Used (\d+) registers(?:.*?(\d+) bytes smem)?`)
	anyLine   = regexp.MustCompile(`(?m)^.*$`)
)

// ParseResources reads the log of Compile.
func ParseResources(log string) []Resources {
	var list []Resources
	for _, line := range anyLine.FindAllString(log, -1) {
		if m := entryLine.FindStringSubmatch(line); m != nil {
			list = append(list, Resources{Kernel: m[1]})
		}
		if len(list) == 0 {
			continue
		}
		r := &list[len(list)-1]
		if m := spillLine.FindStringSubmatch(line); m != nil {
			r.Stack, r.SpillStores, r.SpillLoads = number(m[1]), number(m[2]), number(m[3])
		}
		if m := usedLine.FindStringSubmatch(line); m != nil {
			r.Registers, r.Shared = number(m[1]), number(m[2])
		}
	}
	return list
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // digits, or nothing, which is 0
	return n
}
