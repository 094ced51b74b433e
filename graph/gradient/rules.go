package gradient

import (
	"maps"

	"github.com/carve-dev/carve/graph"
)

// rules add to the derivatives by operands; definitions return what stands for a node's results, nil where it has to have a rule. One operator is
// in one of the two, or in both where its definition is for some nodes alone.
var (
	rules       = map[string]func(*step){}
	definitions = map[string]func(*step) []*graph.Value{}
)

func init() {
	for _, table := range []map[string]func(*step){arithmeticRules, productRules, reductionRules, movingRules} {
		maps.Copy(rules, table)
	}
	for name, slope := range slopes {
		rules[name] = func(s *step) { s.give(0, s.times(s.byOut(), slope(s, s.in(0), s.out()))) }
	}
	for _, table := range []map[string]func(*step) []*graph.Value{functionDefinitions, normDefinitions, poolDefinitions, movingDefinitions} {
		maps.Copy(definitions, table)
	}
}
