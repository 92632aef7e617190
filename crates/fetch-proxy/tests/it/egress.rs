//! The egress listener, in this process and as the binary alone, as its clients meet it: curl, pip, apt, and hand-made bytes.

mod apt;
mod curl;
mod forwarding;
mod identity;
mod limits;
mod listener;
mod pip;
mod records;
mod refusals;
mod setup;
mod sni;
mod web;
mod wire;

/// Runs each of these tests against a listener in this process and against the binary alone.
macro_rules! in_both_shapes {
    ($($test:ident),+ $(,)?) => {
        mod in_process {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$test(crate::egress::setup::Shape::InProcess).await;
                }
            )+
        }
        mod as_binary {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$test(crate::egress::setup::Shape::Binary).await;
                }
            )+
        }
    };
}
use in_both_shapes;
