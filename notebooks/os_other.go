//go:build !linux && !darwin

package main

import (
	"context"
	"errors"
)

// On Windows the program ends with advice before any of these is called; they let it compile there.

var errWindows = errors.New("not on Windows")

func lockHome(context.Context, places, func()) (func(), error) { return nil, errWindows }
func freeBytes(string) (int64, error)                          { return 0, errWindows }
func become(string, []string, []string) error                  { return errWindows }
