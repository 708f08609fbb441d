package tokenize_test

import (
	"fmt"
	"log"
	"strings"

	"forwardpass/pkg/tokenize"
)

func ExampleOpen() {
	tok, err := tokenize.Open("../../testdata/storyland")
	if err != nil {
		log.Fatal(err)
	}
	ids, err := tok.Encode("I love datawhale")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", tok.Tokens(ids))
	fmt.Println(tok.Decode(ids))
	// Output:
	// ["<|endoftext|>" "I" "Ġlove" "Ġdatawhale"]
	// I love datawhale
}

// The same sentence under the three families: BPE over bytes marks the space with
// Ġ, SentencePiece with ▁, and WordPiece marks what is not at the start of a word.
func ExampleTokenizer_EncodeWith() {
	for _, file := range []string{"bpe.json", "wordpiece.json", "unigram.model"} {
		tok, err := tokenize.Open("../../testdata/tokenizers/" + file)
		if err != nil {
			log.Fatal(err)
		}
		text := "The horse unties 我"
		e, err := tok.EncodeWith(text, tokenize.Options{NoSpecial: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(file)
		for i, o := range e.Offsets {
			fmt.Printf("  %5d %-8s %q\n", e.IDs[i], e.Tokens[i], text[o[0]:o[1]])
		}
	}
	// Output:
	// bpe.json
	//     260 The      "The"
	//     358 Ġhorse   " horse"
	//     610 Ġu       " u"
	//      78 n        "n"
	//      84 t        "t"
	//     711 ies      "ies"
	//     221 Ġ        " "
	//     725 æĪĳ      "我"
	// wordpiece.json
	//     980 the      "The"
	//    1056 horse    "horse"
	//      62 u        "u"
	//     627 ##n      "n"
	//     640 ##t      "t"
	//     634 ##i      "i"
	//     981 ##es     "es"
	//     481 我        "我"
	// unigram.model
	//       9 ▁The     "The"
	//      49 ▁horse   " horse"
	//     589 ▁un      " un"
	//      67 t        "t"
	//     133 i        "i"
	//      17 es       "es"
	//       6 ▁        " "
	//     939 我        "我"
}

// Training shows each merge and what it makes of the corpus.
func ExampleTrainBPE() {
	_, err := tokenize.TrainBPE([]string{"low low low lower lower newest newest newest newest widest"}, tokenize.TrainOptions{
		VocabSize: 256 + 6,
		Trace: func(s tokenize.Step) {
			fmt.Printf("%d. %s + %s = %s, %d times:", s.Number, s.Left, s.Right, s.Token, s.Count)
			for _, w := range s.Words(3) {
				fmt.Printf("  %s", strings.Join(w.Tokens, " "))
			}
			fmt.Println()
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1. w + e = we, 6 times:  Ġ n e we s t  Ġ l o w  Ġ l o we r
	// 2. l + o = lo, 5 times:  Ġ n e we s t  Ġ lo w  Ġ lo we r
	// 3. s + t = st, 5 times:  Ġ n e we st  Ġ lo w  Ġ lo we r
	// 4. e + we = ewe, 4 times:  Ġ n ewe st  Ġ lo w  Ġ lo we r
	// 5. n + ewe = newe, 4 times:  Ġ newe st  Ġ lo w  Ġ lo we r
	// 6. Ġ + lo = Ġlo, 4 times:  Ġ newe st  Ġlo w  Ġlo we r
}

// A streaming decoder waits until a character is whole.
func ExampleTokenizer_Stream() {
	tok, err := tokenize.Open("../../testdata/tokenizers/bpe.json")
	if err != nil {
		log.Fatal(err)
	}
	e, err := tok.EncodeWith("a 🦀!", tokenize.Options{})
	if err != nil {
		log.Fatal(err)
	}
	stream := tok.Stream()
	for i, id := range e.IDs {
		fmt.Printf("%-3s %q\n", e.Tokens[i], stream.Next(id))
	}
	// Output:
	// a   "a"
	// ĠðŁ " "
	// ¦   ""
	// Ģ   "🦀"
	// !   "!"
}
