package backend

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Efficiency is what a backend achieves on one kind of processor: a law for each class of operators, by which the time of a
// node follows from its shapes. It is immutable. Times of nodes for which Support.Cost says nothing are modelled by it.
type Efficiency struct {
	// Launch is what handing a group over costs beside its nodes, in nanoseconds.
	Launch float64
	// Switch is what handing a group over costs in addition where several threads run it, and others run its neighbours' groups, in
	// nanoseconds: threads of a library of its own have fallen asleep meanwhile, or are not yet asleep when others go on.
	Switch float64
	// Late is what a run pays for a node whose shapes depend on data, beyond what cpu does, where it finds shapes that none of the last few
	// had, in nanoseconds: a library makes a primitive then.
	Late float64
	// Sync is what a node costs beside its work where several threads share it, in nanoseconds.
	Sync float64
	// Cache is how many bytes of operands and results a node may have before they count as coming from memory.
	Cache float64
	// Laws by class. The class "other" stands for those that are absent; without it these have no modelled cost. Classes are
	// named by package internal/cost; internal/bench/cost prints them with what they hold.
	Laws map[string]Law
}

// Law models the time of a node of one class: a sum over what it does, each times what one of it costs in nanoseconds. All
// coefficients are at least 0, so that more of anything never takes less time.
type Law struct {
	Fixed float64 // of the node, however small
	Work  float64 // of an arithmetic operation, those on padding to whole blocks included
	Bytes float64 // of a byte read or written
	Far   float64 // of a byte beyond Efficiency.Cache, in addition
	Rows  float64 // of an inner loop: a row of a tensor, a tile of a product, a step of a recurrence
	Items float64 // of an element
	// Serial is the part of the time, but for Fixed, that further threads do not shorten: 0 to 1.
	Serial float64
	// Variants are laws for signatures whose names begin so; the longest prefix counts.
	Variants map[string]Law
}

// lawFields are the coefficients by name, in the order in which they are written.
var lawFields = []struct {
	name string
	at   func(l *Law) *float64
}{
	{"fixed", func(l *Law) *float64 { return &l.Fixed }}, {"work", func(l *Law) *float64 { return &l.Work }},
	{"bytes", func(l *Law) *float64 { return &l.Bytes }}, {"far", func(l *Law) *float64 { return &l.Far }},
	{"rows", func(l *Law) *float64 { return &l.Rows }}, {"items", func(l *Law) *float64 { return &l.Items }},
	{"serial", func(l *Law) *float64 { return &l.Serial }},
}

// ErrEfficiency is wrapped by errors about the text of efficiencies.
var ErrEfficiency = errors.New("bad efficiency table")

// ParseEfficiencies reads efficiencies by the name of their instruction set: lines of words, of which "#" begins a comment.
//
//	set avx2 launch=900 sync=1500 cache=524288
//	conv fixed=800 work=0.02 bytes=0.01
//	conv@gemm fixed=2000 work=0.05
//
// A line "set" begins an efficiency; each other one is the law of a class, or, behind "@", that of signatures whose names
// begin so. What is left out is 0. Errors wrap ErrEfficiency and name the line.
func ParseEfficiencies(text string) (map[string]*Efficiency, error) {
	sets := map[string]*Efficiency{}
	var e *Efficiency
	lines := bufio.NewScanner(strings.NewReader(text))
	for at := 1; lines.Scan(); at++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var err error
		switch {
		case words[0] == "set" && len(words) > 1:
			if sets[words[1]] != nil {
				err = fmt.Errorf("set %q comes twice", words[1])
				break
			}
			e = &Efficiency{Laws: map[string]Law{}}
			sets[words[1]] = e
			err = assign(words[2:], e.field)
		case e == nil:
			err = errors.New("a law before the first set")
		default:
			err = e.law(words)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrEfficiency, at, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEfficiency, err)
	}
	return sets, nil
}

// EfficiencySets returns a function that gives the sets of a text by name, nil for none of that name. Each is read when it is
// first asked for. The text is a part of the program: a fault in it is a programmer's, and panics.
func EfficiencySets(text string) func(set string) *Efficiency {
	var known sync.Map
	return func(set string) *Efficiency {
		if e, ok := known.Load(set); ok {
			return e.(*Efficiency)
		}
		var e *Efficiency
		if _, own, found := strings.Cut("\n"+text, "\nset "+set+" "); found {
			own, _, _ = strings.Cut(own, "\nset ")
			sets, err := ParseEfficiencies("set " + set + " " + own)
			if err != nil {
				panic(err)
			}
			e = sets[set]
		}
		kept, _ := known.LoadOrStore(set, e)
		return kept.(*Efficiency)
	}
}

// law reads the line of a law.
func (e *Efficiency) law(words []string) error {
	var l Law
	if err := assign(words[1:], l.field); err != nil {
		return err
	}
	if l.Serial > 1 {
		return fmt.Errorf("serial=%g is above 1", l.Serial)
	}
	class, prefix, variant := strings.Cut(words[0], "@")
	if !variant {
		l.Variants = e.Laws[class].Variants
		e.Laws[class] = l
		return nil
	}
	base := e.Laws[class]
	if base.Variants == nil {
		base.Variants = map[string]Law{}
		e.Laws[class] = base
	}
	base.Variants[prefix] = l
	return nil
}

// field returns the coefficient of a name, nil for none.
func (e *Efficiency) field(name string) *float64 {
	switch name {
	case "launch":
		return &e.Launch
	case "switch":
		return &e.Switch
	case "late":
		return &e.Late
	case "sync":
		return &e.Sync
	case "cache":
		return &e.Cache
	}
	return nil
}

// field returns the coefficient of a name, nil for none.
func (l *Law) field(name string) *float64 {
	for _, f := range lawFields {
		if f.name == name {
			return f.at(l)
		}
	}
	return nil
}

// assign reads words "name=number".
func assign(words []string, to func(name string) *float64) error {
	for _, w := range words {
		name, number, ok := strings.Cut(w, "=")
		field := to(name)
		if !ok || field == nil {
			return fmt.Errorf("%q sets nothing that is known", w)
		}
		x, err := strconv.ParseFloat(number, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 1) {
			return fmt.Errorf("%q is no number of at least 0", w)
		}
		*field = x
	}
	return nil
}

// Text returns an efficiency as ParseEfficiencies reads it, in a stable order.
func (e *Efficiency) Text(set string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "set %s launch=%s", set, short(e.Launch))
	if e.Switch > 0 {
		fmt.Fprintf(&s, " switch=%s", short(e.Switch))
	}
	if e.Late > 0 {
		fmt.Fprintf(&s, " late=%s", short(e.Late))
	}
	fmt.Fprintf(&s, " sync=%s cache=%s\n", short(e.Sync), short(e.Cache))
	for _, class := range slices.Sorted(maps.Keys(e.Laws)) {
		l := e.Laws[class]
		s.WriteString(l.text(class))
		for _, prefix := range slices.Sorted(maps.Keys(l.Variants)) {
			v := l.Variants[prefix]
			s.WriteString(v.text(class + "@" + prefix))
		}
	}
	return s.String()
}

func (l *Law) text(name string) string {
	s := name
	for _, f := range lawFields {
		if x := *f.at(l); x != 0 {
			s += " " + f.name + "=" + short(x)
		}
	}
	return s + "\n"
}

// short writes a number with four significant digits.
func short(x float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return strconv.FormatFloat(rounded, 'g', -1, 64)
}

// For returns the law of a class for a signature's name. ok is false where there is none.
func (e *Efficiency) For(class, signature string) (l Law, ok bool) {
	if l, ok = e.Laws[class]; !ok {
		if l, ok = e.Laws["other"]; !ok {
			return Law{}, false
		}
	}
	best := -1
	found := l
	for prefix, v := range l.Variants {
		if len(prefix) > best && strings.HasPrefix(signature, prefix) {
			best, found = len(prefix), v
		}
	}
	return found, true
}
