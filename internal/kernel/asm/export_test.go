package asm

// Called is called, for specs.
var Called = called
