// Package clock tells what the processor gave to a thread: what a measurement takes on a machine that does other things too.
package clock
