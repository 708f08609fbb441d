package main

import "math"

func f32bits(f float32) uint32 { return math.Float32bits(f) }
