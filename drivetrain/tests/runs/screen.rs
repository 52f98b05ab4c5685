//! What is left on a screen after what was sent to it: as much of a terminal as bars need.

/// A screen of some width that never scrolls.
pub(crate) struct Screen {
    width: usize,
    rows: Vec<Vec<char>>,
    row: usize,
    /// May be the width itself: the next letter goes to the next row.
    column: usize,
}

impl Screen {
    pub(crate) fn new(width: usize) -> Self {
        Self { width, rows: vec![Vec::new()], row: 0, column: 0 }
    }

    pub(crate) fn show(&mut self, sent: &str) {
        let mut letters = sent.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\r' => self.column = 0,
                '\n' => self.go_to(self.row + 1),
                '\u{1b}' => {
                    assert_eq!(letters.next(), Some('['), "a sequence that this screen does not know");
                    let mut number = String::new();
                    let end = loop {
                        match letters.next() {
                            Some(letter) if letter.is_ascii_digit() || ";?".contains(letter) => {
                                number.push(letter);
                            }
                            end => break end,
                        }
                    };
                    self.control(end.unwrap_or_default(), &number);
                }
                // A key that is echoed as it is; terminals show nothing.
                letter if letter.is_control() => {}
                letter => self.put(letter),
            }
        }
    }

    fn control(&mut self, end: char, number: &str) {
        let count = number.parse().unwrap_or(1);
        match end {
            // Colours, and whether the cursor is seen.
            'm' | 'h' | 'l' => {}
            'A' => self.row = self.row.saturating_sub(count),
            'B' => self.go_to(self.row + count),
            'K' if number == "2" => self.rows[self.row].clear(),
            other => panic!("a sequence that this screen does not know: {number}{other}"),
        }
    }

    fn go_to(&mut self, row: usize) {
        self.row = row;
        if self.rows.len() <= row {
            self.rows.resize(row + 1, Vec::new());
        }
    }

    fn put(&mut self, letter: char) {
        if self.column == self.width {
            self.go_to(self.row + 1);
            self.column = 0;
        }
        let row = &mut self.rows[self.row];
        if row.len() <= self.column {
            row.resize(self.column + 1, ' ');
        }
        row[self.column] = letter;
        self.column += 1;
    }

    /// The rows, without empty ones and spaces at their ends.
    pub(crate) fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
        rows.filter(|row| !row.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// What was sent, without the sequences that move and paint.
pub(crate) fn without_control(sent: &str) -> String {
    let mut text = String::new();
    let mut letters = sent.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.by_ref().skip(1).find(char::is_ascii_alphabetic);
        } else {
            text.push(letter);
        }
    }
    text
}

#[test]
fn what_is_redrawn_is_seen_once() {
    let mut screen = Screen::new(5);
    screen.show("above\r\n1/2\r\u{1b}[2K2/2  xy\u{1b}[1A\r\u{1b}[2Kdone\u{1b}[1B\r\u{1b}[2Kend\u{3}");
    assert_eq!(screen.text(), "above\ndone\nend");
    assert_eq!(without_control("\u{1b}[32mgood\u{1b}[0m"), "good");
}
