package choose

import (
	"context"
	"slices"
	"time"
)

// Settings bound the search. The zero value means the defaults.
type Settings struct {
	// Budget is the time after which a heuristic search ends with the best that it found; 0 means no bound but that of its
	// rounds. What is found then may depend on the machine.
	Budget time.Duration
	// Table is the most entries of a table in the exact elimination of a core; 0 means 1<<16, a negative number none.
	Table int
	// Certain ends the search where reductions, tables and cuts do not find the optimum: there is no choice then.
	Certain bool
	// NoCut leaves exact minimum cuts out, NoMoves the moves that improve a choice: for tests of the other methods.
	NoCut, NoMoves bool
}

// Solution is a choice, and how good it is.
type Solution struct {
	Choice []int32 // the alternative of each variable; nil where Settings.Certain ended the search
	Cost   int64   // of the choice; Hard where every choice that was found breaks a rule
	Bound  int64   // no choice costs less
	// Cores are the parts that reductions left: by tables, by a cut, and by bounded search.
	Tables, Cuts, Searches int
	Vars                   int // variables that were left in searches
}

// Solve chooses an alternative for each variable. The error is ctx's, within some milliseconds of its end, or wraps ErrProblem.
func Solve(ctx context.Context, p *Problem, o *Settings) (*Solution, error) {
	if o == nil {
		o = &Settings{}
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	f, err := newFacts(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &solver{o: *o, f: f}
	if s.o.Table == 0 {
		s.o.Table = 1 << 16
	}
	if o.Budget > 0 {
		s.deadline = time.Now().Add(o.Budget)
	}
	return s.solve(ctx)
}

// solver is one call of Solve.
type solver struct {
	o        Settings
	f        *facts
	m        *model
	deadline time.Time
	x        []int32
	out      Solution
}

// late reports whether the budget is used up.
func (s *solver) late() bool { return !s.deadline.IsZero() && time.Now().After(s.deadline) }

func (s *solver) solve(ctx context.Context) (*Solution, error) {
	if err := s.f.prune(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.m, err = newModel(ctx, s.f); err != nil {
		return nil, err
	}
	if err = s.m.reduce(ctx); err != nil {
		return nil, err
	}
	labels := make([]int32, len(s.m.unary))
	cores, err := s.m.cores(ctx)
	if err != nil {
		return nil, err
	}
	if s.o.Certain {
		if ok, err := s.hopeful(ctx, cores); !ok {
			return &s.out, err
		}
	}
	var left [][]int32
	for _, core := range cores {
		done, err := s.m.exact(ctx, core, labels, s.o.Table)
		if err != nil {
			return nil, err
		}
		if done {
			s.out.Tables++
		} else {
			left = append(left, core)
		}
	}
	bound := s.m.base
	if len(left) > 0 {
		more, err := s.search(ctx, left, labels)
		if err != nil {
			return nil, err
		}
		if s.x == nil {
			return &s.out, nil
		}
		bound = sum(bound, more)
	} else {
		if err := s.read(ctx, labels); err != nil {
			return nil, err
		}
		if s.m.loose {
			if err := newSearch(s).run(ctx, bound); err != nil {
				return nil, err
			}
		}
	}
	s.out.Choice = s.x
	if s.out.Cost, err = s.f.p.cost(ctx, s.x); err != nil {
		return nil, err
	}
	if s.out.Bound = min(bound, s.out.Cost); s.o.Certain && s.out.Bound < s.out.Cost {
		s.out.Choice = nil
	}
	return &s.out, nil
}

// read makes a choice of labels; those of variables that were eliminated are found on the way.
func (s *solver) read(ctx context.Context, labels []int32) error {
	if err := s.m.finish(ctx, labels); err != nil {
		return err
	}
	if s.x == nil {
		s.x = make([]int32, len(s.f.p.Vars))
	}
	for v := range s.x {
		s.x[v] = s.f.alts[v][labels[v]]
	}
	return nil
}

// hopeful reports whether each core is one for tables, or has at most two alternatives around each variable.
func (s *solver) hopeful(ctx context.Context, cores [][]int32) (bool, error) {
	e := newElimination(s.m)
	for _, core := range cores {
		fits, err := e.fits(ctx, core, s.o.Table)
		if err != nil {
			return false, err
		}
		if !fits && slices.ContainsFunc(newSearch(s).around(core), func(v int32) bool { return len(s.f.alts[v]) > 2 }) {
			return false, nil
		}
	}
	return true, nil
}

// search deals with cores that are too large for tables: by minimum cuts where these are exact; otherwise it bounds each from
// below, and looks for a good choice. It returns the sum of the bounds.
func (s *solver) search(ctx context.Context, cores [][]int32, labels []int32) (int64, error) {
	if err := s.read(ctx, labels); err != nil {
		return 0, err
	}
	w := newSearch(s)
	var open [][]int32
	for _, core := range cores {
		vars := w.around(core)
		done := false
		if !s.o.NoCut {
			var err error
			if done, err = s.f.binary(ctx, w.pair, vars, s.x); err != nil {
				return 0, err
			}
		}
		if done {
			s.out.Cuts++
			w.solved(vars)
		} else {
			s.out.Searches++
			s.out.Vars += len(core)
			open = append(open, core)
		}
	}
	if len(open) == 0 && !s.m.loose {
		cost, err := s.f.p.cost(ctx, s.x)
		return cost - s.m.base, err // every part is at its optimum
	}
	if s.o.Certain {
		s.x = nil
		return 0, nil
	}
	hard, bound := s.ceiling(cores), int64(0)
	found := slices.Clone(s.x)
	for _, core := range cores {
		p, err := newPassing(ctx, s.m, core, hard)
		if err != nil {
			return 0, err
		}
		if err := s.pass(ctx, p); err != nil {
			return 0, err
		}
		for k, v := range p.order {
			labels[v] = p.best[k]
		}
		bound += p.floor()
		if !s.o.NoMoves && !s.late() && p.least-p.bound > nothing*p.bound {
			if err := s.m.windows(ctx, core, labels); err != nil {
				return 0, err
			}
		}
	}
	if err := s.read(ctx, labels); err != nil {
		return 0, err
	}
	for v := range s.x {
		if w.fixed[v] {
			s.x[v] = found[v]
		}
	}
	return bound, w.run(ctx, sum(s.m.base, bound))
}

// ceiling returns a cost that is more than any that the cores can come to with what is allowed: the sum of the largest entries.
func (s *solver) ceiling(cores [][]int32) int64 {
	total := int64(1)
	largest := func(list []int64) (most int64) {
		for _, c := range list {
			if c < Hard {
				most = max(most, c)
			}
		}
		return most
	}
	for _, core := range cores {
		for _, v := range core {
			total = sum(total, largest(s.m.unary[v]))
			for h := s.m.head[v]; h >= 0; h = s.m.next[h] {
				if h&1 == 0 {
					total = sum(total, largest(s.m.tab[h>>1]))
				}
			}
		}
	}
	return total
}

// Bounds of message passing.
const (
	passes   = 240
	stretch  = 4    // passes between two choices
	passWork = 6e9  // table entries over all passes of a core
	enough   = 1e-4 // gap, as a share of the bound, at which the search ends
	nothing  = 1e-9 // gap that is none: what float64 leaves of it
	progress = 1e-5 // share of the bound that it has to rise by in a stretch
	large    = 20_000
	coarse   = 50 // times either in a large core
)

// enough returns the gap at which the search of so many variables ends.
func (s *solver) enough(vars int) float64 {
	if vars > large {
		return coarse * enough
	}
	return enough
}

// pass passes messages until bound and choice are close, or the bound hardly rises any more.
func (s *solver) pass(ctx context.Context, p *passing) error {
	work := 1.0
	for i := range p.arcs {
		for k := range p.arcs[i] {
			work += float64(len(p.arcs[i][k].t))
		}
	}
	most := int(min(passes, max(2*stretch, passWork/work)))
	step, gap := progress, s.enough(len(p.order))
	if len(p.order) > large {
		step *= coarse
	}
	before := 0.0
	for k := 1; k <= most; k++ {
		if err := p.forward(ctx); err != nil {
			return err
		}
		if err := p.backward(ctx); err != nil {
			return err
		}
		late := s.late()
		if k%stretch > 0 && !late && k < most {
			continue
		}
		if err := p.round(ctx); err != nil {
			return err
		}
		if late || p.least-p.bound <= gap*p.bound || p.bound-before <= step*p.bound {
			break
		}
		before = p.bound
	}
	return nil
}

// search improves a choice by moves.
type search struct {
	s     *solver
	pair  *pair
	cut   cutter
	fixed []bool  // variables that are at their optimum
	vars  []int32 // the others
	least int64
}

func newSearch(s *solver) *search {
	return &search{s: s, pair: newPair(s.f), fixed: make([]bool, len(s.f.p.Vars))}
}

// around returns the variables of the problem that are connected with a core, with those that were eliminated. Variables with one
// alternative connect nothing.
func (w *search) around(core []int32) []int32 {
	f := w.s.f
	seen := make([]bool, len(f.p.Vars))
	values := make([]bool, len(f.p.Values))
	var out []int32
	push := func(v int32) {
		if v >= 0 && !seen[v] && len(f.alts[v]) > 1 {
			seen[v] = true
			out = append(out, v)
		}
	}
	for _, v := range core {
		if int(v) < len(f.p.Vars) {
			push(v)
			continue
		}
		for h := w.s.m.head[v]; h >= 0; h = w.s.m.next[h] {
			if u := w.s.m.node[h^1]; int(u) < len(f.p.Vars) {
				push(u)
			}
		}
	}
	tied := map[int32][]int32{}
	for _, t := range f.tied() {
		tied[t.a], tied[t.b] = append(tied[t.a], t.b), append(tied[t.b], t.a)
	}
	near := func(i int32) {
		if values[i] {
			return
		}
		values[i] = true
		push(f.p.Values[i].Maker)
		for k := range f.p.Values[i].Uses {
			push(f.p.Values[i].Uses[k].Var)
		}
		for _, v := range f.joined.at(i) {
			push(v)
		}
	}
	for k := 0; k < len(out); k++ {
		v := out[k]
		for _, i := range f.reads.at(v) {
			near(i)
		}
		for _, i := range f.makes.at(v) {
			near(i)
		}
		if j := f.p.Vars[v].Joins; j >= 0 {
			near(j)
		}
		for _, u := range tied[v] {
			push(u)
		}
	}
	slices.Sort(out)
	return out
}

func (w *search) solved(vars []int32) {
	for _, v := range vars {
		w.fixed[v] = true
	}
}

// rounds bounds how often all proposals are tried.
const rounds = 4

// run improves the choice until no proposal does, or the bound is reached.
func (w *search) run(ctx context.Context, bound int64) error {
	s := w.s
	for v := range s.f.alts {
		if len(s.f.alts[v]) > 1 && !w.fixed[v] {
			w.vars = append(w.vars, int32(v))
		}
	}
	if err := w.polish(ctx); err != nil {
		return err
	}
	if s.o.NoMoves {
		return nil
	}
	gap := s.enough(s.out.Vars)
	for round := range rounds {
		before := w.least
		err := w.propose(func(y []int32) (bool, error) {
			if float64(w.least-bound) <= gap*float64(bound) || s.late() {
				return false, nil
			}
			return true, w.fuse(ctx, y, round%2 == 1)
		})
		if err != nil {
			return err
		}
		if err := w.polish(ctx); err != nil {
			return err
		}
		if w.least >= before {
			break
		}
	}
	return nil
}

// polish lets single variables, and claims, change while that makes the choice better.
func (w *search) polish(ctx context.Context) error {
	place, err := newPlace(ctx, w.s.f, w.s.x)
	if err != nil {
		return err
	}
	for range rounds {
		if err := place.improve(ctx, w.vars); err != nil {
			return err
		}
		changed, err := w.claims(ctx, place)
		if err != nil {
			return err
		}
		if !changed {
			break
		}
	}
	w.least, err = w.s.f.p.cost(ctx, w.s.x)
	return err
}

// fuse takes the better parts of a proposal.
func (w *search) fuse(ctx context.Context, y []int32, lean bool) error {
	w.pair.set(w.s.x, y, w.vars)
	if len(w.pair.active) == 0 {
		return nil
	}
	z, _, err := w.cut.move(ctx, w.pair, lean)
	if err != nil {
		return err
	}
	for _, x := range [][]int32{z, y} {
		c, err := w.s.f.p.cost(ctx, x)
		if err != nil {
			return err
		}
		if c < w.least {
			w.least = c
			copy(w.s.x, x)
		}
	}
	return nil
}
