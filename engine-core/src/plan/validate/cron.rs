//! Cron expressions of five fields.

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    /// Words that stand for numbers, the first one for `least`.
    words: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", least: 0, most: 59, words: &[] },
    Field { name: "hour", least: 0, most: 23, words: &[] },
    Field { name: "day of month", least: 1, most: 31, words: &[] },
    Field { name: "month", least: 1, most: 12, words: MONTHS },
    // 7 is Sunday as well.
    Field { name: "day of week", least: 0, most: 7, words: DAYS },
];

/// Why `text` is no cron expression. Fields hold `*`, numbers, names, ranges `a-b`, steps `/n` and lists with `,`.
pub(super) fn check(text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split_ascii_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!("a cron expression has five fields, and {text:?} has {}", parts.len()));
    }
    let mut days = None;
    let mut months = None;
    for (field, part) in FIELDS.iter().zip(parts) {
        for item in part.split(',') {
            field.item(item).map_err(|reason| format!("{}: {reason}", field.name))?;
        }
        match field.name {
            "day of month" => days = Some(part),
            "month" => months = Some(part),
            "day of week" if part == "*" => check_date(days, months)?,
            _ => {}
        }
    }
    Ok(())
}

/// A day that none of the months has: nothing would ever start. Only for plain numbers, where it is plain to see.
fn check_date(days: Option<&str>, months: Option<&str>) -> Result<(), String> {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    match (number(days), number(months)) {
        (Some(day @ 30..), Some(2)) => Err(format!("day of month: February has no day {day}")),
        (Some(31), Some(month @ (4 | 6 | 9 | 11))) => {
            Err(format!("day of month: month {month} has no day 31"))
        }
        _ => Ok(()),
    }
}

impl Field {
    fn item(&self, item: &str) -> Result<(), String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        if let Some(step) = step {
            let good = step.parse::<u32>().is_ok_and(|step| step >= 1 && step <= self.most);
            if !good || !step.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(format!("{step:?} is no step from 1 to {}", self.most));
            }
        }
        if range == "*" {
            return Ok(());
        }
        let Some((from, to)) = range.split_once('-') else {
            return self.number(range).map(|_| ());
        };
        let (from, to) = (self.number(from)?, self.number(to)?);
        if from > to { Err(format!("the range {range} runs backwards")) } else { Ok(()) }
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let word = self.words.iter().position(|word| word.eq_ignore_ascii_case(text));
        if let Some(position) = word {
            return Ok(self.least + u32::try_from(position).unwrap_or(0));
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u32>() {
            Ok(number) if digits && (self.least..=self.most).contains(&number) => Ok(number),
            _ => Err(format!("{text:?} is not in {} to {}", self.least, self.most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn usual_expressions_are_accepted() {
        for good in [
            "* * * * *",
            "*/5 0-23 1,15 jan-mar Mon-FRI",
            "0 0 29 2 *",
            "59 23 31 12 7",
            "0 9-17/2 * * 1-5",
            "5/15 * * * *",
            "0 0 31 2 1",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused_with_its_field() {
        for (bad, reason) in [
            ("* * * *", "five fields"),
            ("60 * * * *", "minute: \"60\" is not in 0 to 59"),
            ("* * 0 * *", "day of month"),
            ("* * * feb-jan *", "month: the range feb-jan runs backwards"),
            ("* * * * mond", "day of week"),
            ("*/0 * * * *", "\"0\" is no step"),
            ("1,,2 * * * *", "minute: \"\" is not"),
            ("+1 * * * *", "minute"),
            ("0 0 31 4 *", "month 4 has no day 31"),
            ("0 0 30 2 *", "February has no day 30"),
            ("", "five fields, and \"\" has 0"),
        ] {
            let message = check(bad).unwrap_err();
            assert!(message.contains(reason), "{bad}: {message}");
        }
    }
}
