package plugin

import (
	"fmt"
	"hash/fnv"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
	"github.com/carve-dev/carve/graph/device"
)

// What a library brings beside processors is a list of structs with functions: operators, then properties, then passes. In this
// process they are called by their addresses. A process of the library's own has them elsewhere in each of its lives, so that they
// are called by numbers there, and the process puts the address of the struct in front of the arguments.

// member is a function of one of those structs.
type member uintptr

const (
	memberInfer member = iota
	memberWorkspace
	memberRun
	memberSelect
	memberSelectInput
	memberSelectOutput
	memberFilter
	memberReset
	memberClaim
	memberReleaseClaims
	memberRelease
	numMembers
)

// memberNames are as in carve_plugin.h.
var memberNames = [numMembers]string{"infer", "workspace", "run", "select", "select_input", "select_output", "filter", "reset", "claim",
	"release_claims", "release"}

// ownFunctions is the first number of those functions; each struct has as many as there are members.
const ownFunctions = 1 << 16

// memberOf returns the struct and the member that a number is of.
func memberOf(fn uintptr) (thing int, m member) {
	return int((fn - ownFunctions) / uintptr(numMembers)), member((fn - ownFunctions) % uintptr(numMembers))
}

// slot is where a struct has the address of a function.
type slot struct {
	member
	at *uintptr
}

func (c *cOperator) slots() []slot {
	return []slot{{memberInfer, &c.infer}, {memberWorkspace, &c.workspace}, {memberRun, &c.run}}
}

func (c *cProperty) slots() []slot {
	return []slot{{memberSelect, &c.select_}, {memberSelectInput, &c.selectInput}, {memberSelectOutput, &c.selectOutput},
		{memberFilter, &c.filter}, {memberReset, &c.reset}, {memberClaim, &c.claim}, {memberReleaseClaims, &c.releaseClaims},
		{memberWorkspace, &c.workspace}, {memberRun, &c.run}}
}

func (c *cPass) slots() []slot { return []slot{{memberRun, &c.run}, {memberRelease, &c.release}} }

// number has slots hold numbers instead of addresses, where the struct is one of another process.
func (from side) number(thing int, slots []slot) {
	if from.proc == nil {
		return
	}
	for _, x := range slots {
		if *x.at != 0 {
			*x.at = ownFunctions + uintptr(thing)*uintptr(numMembers) + uintptr(x.member)
		}
	}
}

// thing is one of those structs in the process that the library runs in.
type thing struct {
	at        uintptr
	functions [numMembers]uintptr
}

// things lists the structs, and returns a number that differs where they do. Of what is described wrongly there is nothing: who
// opens the library reads the same, and says so.
func (l *Library) things() (list []thing, digest uint64) {
	h := fnv.New64a()
	add := func(at uintptr, slots []slot, what ...any) {
		t := thing{at: at}
		for _, x := range slots {
			t.functions[x.member] = *x.at
			what = append(what, *x.at != 0)
		}
		list = append(list, t)
		fmt.Fprintf(h, "%q\n", fmt.Sprint(what...))
	}
	addresses, operators, _ := own[cOperator](here, l.table.ownOperators, l.table.nOwnOperators, "operator")
	for i := range operators {
		c := &operators[i]
		add(addresses[i], c.slots(), "operator", here.text(c.domain), here.text(c.name), c.sinceMin, c.sinceMax, c.flags, here.text(c.schema))
	}
	addresses, properties, _ := own[cProperty](here, l.table.properties, l.table.nProperties, "property")
	for i := range properties {
		c := &properties[i]
		add(addresses[i], c.slots(), "property", here.text(c.name), here.text(c.backend), c.kind, c.stateBytes, c.nAttrs)
	}
	addresses, passes, _ := own[cPass](here, l.table.passes, l.table.nPasses, "pass")
	for i := range passes {
		c := &passes[i]
		add(addresses[i], c.slots(), "pass", here.text(c.name), here.text(c.before), here.text(c.after))
	}
	return list, h.Sum64()
}

// maxOwn bounds how many operators, properties or passes a library brings.
const maxOwn = 1 << 12

// own reads a list of structs, and their addresses.
func own[T any](from side, at uintptr, n uint64, what string) ([]uintptr, []T, error) {
	if n > maxOwn {
		return nil, nil, fmt.Errorf("%w: a list of %d times %s", ErrPlugin, n, what)
	}
	addresses, err := words[uintptr](from, at, n, what)
	if err != nil {
		return nil, nil, err
	}
	list, err := views[T](from, at, n, what)
	return addresses, list, err
}

// readOwn reads what the plugin brings beside processors.
func (l *Library) readOwn(from side) error {
	if err := l.readOperators(from); err != nil {
		return err
	}
	if err := l.readProperties(from); err != nil {
		return err
	}
	return l.readPasses(from)
}

// ownWriter returns a writer for a call of something that the library brings beside processors, where that runs: a process is
// started for it, where nobody holds one, and done gives it up.
func (l *Library) ownWriter(pg *page) (w *writer, done func()) {
	w = &writer{page: pg}
	if l.apart == nil {
		return w, func() {}
	}
	proc, err := l.enter()
	if err != nil {
		w.err = err
		return w, func() {}
	}
	life, err := proc.Life(patience)
	pg.region, w.side, w.err = proc.Region(), side{l, proc, life}, l.processError(reading, err)
	return w, l.leave
}

// held is the process of a library while somebody uses what it brings beside processors.
type held struct {
	l      *Library
	proc   *isolate.Process
	before isolate.Stats
}

// hold implements the Start of a backend.Library.
func (l *Library) hold() (backend.LibraryProcess, error) {
	proc, err := l.enter()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", backend.ErrUnavailable, l.path, err)
	}
	return &held{l, proc, l.stats()}, nil
}

// Shared implements backend.LibraryProcess: nil where no kernel is called.
func (x *held) Shared() device.Allocator {
	for _, p := range x.l.properties {
		if p.c.run != 0 {
			return sharedMemory(x.proc)
		}
	}
	if len(x.l.operators) > 0 {
		return sharedMemory(x.proc)
	}
	return nil
}

// Process implements backend.LibraryProcess.
func (x *held) Process() backend.Process { return x.l.fared(x.before) }

// Close implements backend.LibraryProcess.
func (x *held) Close() error {
	x.l.leave()
	return nil
}
