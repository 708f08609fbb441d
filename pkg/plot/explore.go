package plot

import (
	"fmt"

	"forwardpass/pkg/sample"
	"forwardpass/pkg/sample/explore"
)

// Explore shows a next-token distribution with sliders for the sampler's settings. The page computes with package sample
// itself, as WebAssembly. Where scripts don't run there is a picture of the distribution at the settings that the sliders
// start with.
func Explore(o explore.Options) error {
	c, html, err := NewExplorer(o)
	if err == nil {
		err = c.ShowPicture()
	}
	if err == nil {
		err = HTML(html, "The live explorer runs in JupyterLab.")
	}
	return told(err)
}

// NewExplorer makes the picture and the page part of Explore without showing them.
func NewExplorer(o explore.Options) (picture *Chart, html string, err error) {
	o.ReplacePrevious = true
	if html, err = explore.HTML(o); err != nil {
		return nil, "", fmt.Errorf("plot: %w", err)
	}
	how := sample.Options{Temperature: o.Temperature, TopK: o.TopK, TopP: o.TopP, MinP: o.MinP, Order: explore.Orders[o.Order]}
	if how.Temperature == 0 {
		how.Temperature = 1
	}
	p, err := sample.NewPipeline(how)
	if err != nil {
		return nil, "", fmt.Errorf("plot: explorer: %w", err)
	}
	after, err := p.Probs(o.Logits, nil)
	if err != nil {
		return nil, "", fmt.Errorf("plot: explorer: %w", err)
	}
	before, err := sample.Probs(o.Logits, sample.Options{Temperature: 1})
	if err != nil {
		return nil, "", fmt.Errorf("plot: explorer: %w", err)
	}
	var labels []string
	groups := [][]float64{nil, nil}
	for _, id := range explore.Best(o.Logits, o.Rows) {
		labels = append(labels, o.Tokens[id])
		groups[0] = append(groups[0], before[id])
		groups[1] = append(groups[1], after[id])
	}
	picture, err = NewBarGroups(labels, groups, Options{
		Title: o.Title, XLabel: "next token", YLabel: "probability", Names: []string{"softmax of the logits (T = 1)", p.String()}, Horizontal: true, Alt: o.Alt})
	return picture, html, err
}
