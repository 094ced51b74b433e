package cpu

import (
	_ "embed"

	"github.com/carve-dev/carve/backend"
)

// efficiencyText has what the kernels achieve, by instruction set. See internal/bench/cost.
//
//go:embed efficiency.txt
var efficiencyText string

// efficiencyOf returns what is achieved with an instruction set.
var efficiencyOf = backend.EfficiencySets(efficiencyText)
