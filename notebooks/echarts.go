package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ECharts draws the live charts. With a copy of it beside Jupyter's own files, a class without
// internet sees them too.
const (
	echartsVersion = "5.6.0"
	echartsSum     = "bf4a223524e40b77c304bec67e1222cf551f14880cf42c69dc046558e11c07b1" // SHA-256 of echarts.min.js
	echartsFile    = "package/dist/echarts.min.js"                                      // in npm's archive
)

func bringECharts(ctx context.Context, p places, npm string, say func(string)) error {
	if err := os.MkdirAll(p.home, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(p.home, "npm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := runTool(ctx, dir, os.Environ(), say, npm, "pack", "--silent", "echarts@"+echartsVersion); err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(dir, "echarts-"+echartsVersion+".tgz"))
	if err != nil {
		return err
	}
	defer f.Close()
	script, err := fromArchive(f, echartsFile)
	if err != nil {
		return fmt.Errorf("echarts: %w", err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(script)); sum != echartsSum {
		return fmt.Errorf("echarts: the file has SHA-256 %s, want %s", sum, echartsSum)
	}
	return writeFile(filepath.Join(p.static, "echarts.min.js"), script, 0o644)
}

// fromArchive reads one file of a .tgz.
func fromArchive(r io.Reader, name string) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s is not in the archive", name)
		}
		if err != nil {
			return nil, err
		}
		if h.Name == name {
			return io.ReadAll(t)
		}
	}
}
