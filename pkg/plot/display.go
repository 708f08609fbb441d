package plot

import (
	"encoding/gob"
	"fmt"
	"os"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"
)

// bundle is one output in several forms, of which the page shows the richest that it can.
type bundle map[string]any

func init() {
	gob.Register(map[string]any{}) // a picture's size travels to the kernel in nested maps
}

// Show puts the chart on the page: the picture, then the script that makes it live. Outside a notebook,
// in a plain program or a test, it prints what the chart shows.
func (c *Chart) Show() error {
	if err := c.ShowPicture(); err != nil || !gonbui.IsNotebook {
		return err
	}
	js, err := c.script()
	if err != nil {
		return err
	}
	return display(bundle{"text/html": "<script>" + js + "</script>"}, nil)
}

// ShowPicture puts only the picture on the page.
func (c *Chart) ShowPicture() error {
	data, err := c.PNG()
	if err != nil {
		return err
	}
	return display(bundle{"image/png": data, "text/plain": c.alt}, map[string]any{
		"image/png": map[string]any{"width": c.width, "height": c.height, "alt": c.alt},
	})
}

// Markdown shows text with Markdown's marks and formulas.
func Markdown(text string) error {
	return told(display(bundle{"text/markdown": text, "text/plain": text}, nil))
}

// HTML shows a piece of a page. Scripts in it run only in a trusted notebook; alt is what is shown where
// no HTML is.
func HTML(html, alt string) error {
	return told(display(bundle{"text/html": html, "text/plain": alt}, nil))
}

// Update shows HTML in the place of what was shown before with the same id in this cell, for progress
// that a saved notebook keeps once.
func Update(id, html string) error {
	if !gonbui.IsNotebook {
		return nil
	}
	gonbui.UpdateHTML(id, html)
	return sent()
}

// display sends an output to the page and waits until it is there: a program that ends sooner loses it.
func display(b bundle, metadata map[string]any) error {
	if !gonbui.IsNotebook {
		_, err := fmt.Println(b["text/plain"])
		return err
	}
	data := make(map[protocol.MIMEType]any, len(b))
	for mime, content := range b {
		data[protocol.MIMEType(mime)] = content
	}
	os.Stdout.Sync()
	gonbui.SendData(&protocol.DisplayData{Data: data, Metadata: metadata})
	return sent()
}

func sent() error {
	gonbui.Sync()
	if err := gonbui.Error(); err != nil {
		return fmt.Errorf("plot: the page cannot be reached: %w", err)
	}
	return nil
}
