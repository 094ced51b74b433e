package reference

import (
	_ "embed"

	"github.com/carve-dev/carve/backend"
)

// efficiencyText has what the kernels achieve: they are the same Go everywhere. See internal/bench/cost.
//
//go:embed efficiency.txt
var efficiencyText string

// efficiencyOf returns what is achieved; the one set is "any".
var efficiencyOf = backend.EfficiencySets(efficiencyText)
