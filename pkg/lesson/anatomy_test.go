package lesson_test

import (
	"fmt"
	"testing"

	"forwardpass/pkg/lesson"
	"forwardpass/pkg/model"
)

func TestAnatomy(t *testing.T) {
	for name, want := range map[string]string{
		"gpt2":           "[gpt2 MHA dense LayerNorm pre-norm learned]",
		"llama-mqa-bias": "[llama MQA dense, gated RMSNorm pre-norm RoPE]",
		"llama-yarn":     "[llama MQA dense, gated RMSNorm pre-norm RoPE, yarn]",
		"mixtral":        "[mixtral GQA 4:2 MoE 2 of 4 RMSNorm pre-norm RoPE]",
		"deepseek-v3":    "[deepseek_v3 MLA MoE 2 of 8 + shared RMSNorm pre-norm RoPE, yarn]",
		"olmo2":          "[olmo2 GQA 4:2 dense, gated RMSNorm on what a part adds RoPE]",
		"gemma2":         "[gemma2 GQA 4:2, window dense, gated RMSNorm before and on what it adds RoPE]",
		"gpt-neox":       "[gpt_neox MHA dense LayerNorm parallel RoPE on 4 of 16]",
	} {
		m, err := model.Open(lesson.Testdata("golden", "models", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(lesson.Anatomy(m)); got != want {
			t.Errorf("%s: want %s, got %s", name, want, got)
		}
		if len(lesson.Anatomy(m)) != len(lesson.AnatomyHeader()) {
			t.Error("header and row differ in length")
		}
		m.Close()
	}
}
